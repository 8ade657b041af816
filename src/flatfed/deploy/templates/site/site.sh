#!/bin/sh
# Starts the site process of @site@: it holds the data and the model, and answers the SuperNode through a Unix socket.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$here"
umask 077
mkdir -p state
export PATH="$here/.venv/bin:$PATH"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec flatfed site run --config site.yaml
