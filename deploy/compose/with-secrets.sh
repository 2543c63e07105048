#!/bin/sh
# The entry point of images that read their secrets as a user who may not: root puts each file of /run/secrets into the variable of its name, and
# the image's own entry point, which is the argument, drops root.
set -eu
for path in /run/secrets/*; do
  export "${path##*/}=$(cat "$path")"
done
exec "$@"
