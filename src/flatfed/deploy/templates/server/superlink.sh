#!/bin/sh
# Starts the SuperLink, through which the server and the sites exchange messages.
# It listens on the loopback interface alone: its Control API asks for no credentials. Sites come in through proxy.sh.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here"
umask 077  # the database holds what is in transit
mkdir -p state
export PATH="$here/.venv/bin:$PATH"
export FLWR_HOME="$here/flower"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
exec flower-superlink \
  --host 127.0.0.1 \
  --port @inner_port@ \
  --ssl-ca-certfile "$here/ca.crt" \
  --ssl-certfile "$here/server.crt" \
  --ssl-keyfile "$here/server.key" \
  --enable-supernode-auth \
  --disable-runtime-dependency-installation \
  --isolation process \
  --superexec-auth-secret-file "$here/superexec.secret" \
  --database "$here/state/superlink.db" \
  "$@"
