#!/bin/sh
# Starts the SuperNode of @site@: it fetches messages from the server and hands them to the site process (site.sh).
# It connects to @address@ and accepts no connections from outside.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here"
umask 077
mkdir -p state
# Flower looks for its own programs on PATH; flwr-clientapp, which it starts for every message, is taken from this kit.
export PATH="$here/bin:$here/.venv/bin:$PATH"
export FLWR_HOME="$here/state/flower"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL="${FLWR_SUPEREXEC_TASK_POLL_INTERVAL:-0.5}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec flower-supernode \
  --superlink @address@ \
  --root-certificates "$here/ca.crt" \
  --auth-supernode-private-key "$here/node.key" \
  --isolation subprocess \
  --host 127.0.0.1 \
  --port "${FLATFED_NODE_PORT:-@node_port@}" \
  --node-config "site-socket=\"$here/state/site.sock\"" \
  "$@"
