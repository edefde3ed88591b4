#!/usr/bin/env bash
# Fail if the generated code in the tree is not what the .proto files generate.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
tools/protoc.sh "$fresh"
status=0
for file in "$fresh"/geoveil/proto/v1/*; do
    cmp "$file" "proto/geoveil/proto/v1/$(basename "$file")" || status=1
done
for file in proto/geoveil/proto/v1/*_pb2*; do
    [ -e "$fresh/geoveil/proto/v1/$(basename "$file")" ] || { echo "$file: no .proto makes it"; status=1; }
done
[ $status = 0 ] && echo "generated code: no drift" || echo "generated code drifted: run 'make proto'"
exit $status
