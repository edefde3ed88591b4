#!/usr/bin/env bash
# Generate the TypeScript of proto/ into src/gen or, with a folder as argument, there. It needs
# protoc-gen-es of node_modules on the path, and a Python with grpcio-tools.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-src/gen}
mkdir -p "$out"
PATH="$PWD/node_modules/.bin:$PATH" python -m grpc_tools.protoc -I ../../proto \
    --es_out="$out" --es_opt=target=ts,import_extension=js \
    ../../proto/geoveil/proto/v1/{campaign,collector,report}.proto
