#!/bin/bash
# Puts ONNX's tests of its operators, as its pinned wheel ships them, into build/node_tests. Does
# nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup_python.sh
tests=build/node_tests
stamp=$tests/node_tests_wheel.txt
cmp -s tools/node_tests_wheel.txt "$stamp" && exit 0
echo "fetch_node_tests: fetching the tests into $tests"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
build/venv/bin/pip download --quiet --disable-pip-version-check --only-binary :all: --no-deps \
  --require-hashes -r tools/node_tests_wheel.txt -d "$wheels"
rm -rf "$tests"
mkdir -p "$tests"
build/venv/bin/python tools/unpack_node_tests.py "$tests" "$wheels"/*.whl
cp tools/node_tests_wheel.txt "$stamp"
