#!/bin/bash
# clang-tidy over the sources of src and cli, without the tests. Wants a configured build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/dev}
git ls-files -z 'src/*.cpp' 'cli/*.cpp' | grep -zv '_test\.cpp$' \
  | xargs -0 -r -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet --warnings-as-errors='*'
