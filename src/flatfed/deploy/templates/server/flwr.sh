#!/bin/sh
# Runs Flower's command line against this SuperLink, in this folder. Paths are relative to it:
#   sh flwr.sh run ../app flatfed --stream
#   sh flwr.sh supernode list flatfed
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here"
export PATH="$here/.venv/bin:$PATH"
export FLWR_HOME="$here/flower"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
# Flower wants an absolute path in its configuration, so this is written where the folder lies now; all at once, as two may run.
cat > "flower/config.toml.$$" <<CONFIG
[superlink]
default = "flatfed"

[superlink.flatfed]
address = "@inner_address@"
root-certificates = "$here/ca.crt"
CONFIG
mv "flower/config.toml.$$" flower/config.toml
exec flwr "$@"
