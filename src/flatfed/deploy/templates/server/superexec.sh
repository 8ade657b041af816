#!/bin/sh
# Starts the SuperExec, which runs flatfed's ServerApp beside the SuperLink: a run outlives a SuperLink that is killed.
# Runs are written below this folder.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here"
umask 077
export PATH="$here/.venv/bin:$PATH"
export FLWR_HOME="$here/flower"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL="${FLWR_SUPEREXEC_TASK_POLL_INTERVAL:-0.5}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec flower-superexec \
  --runtime-api-address @inner_address@ \
  --root-certificates "$here/ca.crt" \
  --superexec-auth-secret-file "$here/superexec.secret" \
  "$@"
