#!/bin/sh
# Registers the public key of every site; the SuperLink must be running. It refuses one that is registered already.
#   sh register.sh                 all sites
#   sh register.sh hospital-a      some of them
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ "$#" -eq 0 ]; then
  set -- @site_words@
fi
failed=0
for site in "$@"; do
  echo "$site:"
  sh "$here/flwr.sh" supernode register --name "$site" "keys/$site.pub" flatfed || failed=1
done
exit "$failed"
