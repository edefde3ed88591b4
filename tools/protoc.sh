#!/usr/bin/env bash
# Generate the Python code of proto/, into the tree or, with a folder as argument, there.
# The oldest compiler that we support makes it: generated code refuses runtimes older than
# its compiler, so an application that pins an older protobuf can still embed the client.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-proto}
venv=.venv-proto
if [ ! -x "$venv/bin/protoc-gen-mypy_grpc" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install --quiet --require-hashes --requirement requirements/proto.txt
fi
mkdir -p "$out"
PATH="$PWD/$venv/bin:$PATH" "$venv/bin/python" -m grpc_tools.protoc -I proto \
    --python_out="$out" --grpc_python_out="$out" --mypy_out="quiet:$out" --mypy_grpc_out="quiet:$out" \
    proto/geoveil/proto/v1/*.proto
