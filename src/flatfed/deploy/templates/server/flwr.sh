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
exec flwr "$@"
