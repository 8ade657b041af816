#!/bin/sh
# Starts nginx, the only door for the sites: it passes the Fleet API to the SuperLink, and nothing else.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
export PATH="$PATH:/usr/sbin:/sbin"
mkdir -p "$here/proxy/temporary"
exec nginx -p "$here/proxy/" -c "$here/proxy/nginx.conf" -e "$here/proxy/error.log" -g 'daemon off;'
