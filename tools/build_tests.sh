#!/bin/bash
# Builds the test programs of the parts that a regular expression of ctest names.
# usage: build_tests.sh PRESET REGEX, where REGEX matches "<part>/"
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
regex=$2
targets=()
for file in src/*/CMakeLists.txt src/*/*/CMakeLists.txt; do
  part=${file#src/}
  part=${part%/CMakeLists.txt}
  [[ "$part/" =~ $regex ]] || continue
  for target in "${part//\//_}_tests" "${part//\//_}_stress_tests"; do
    ninja -C "build/$preset" -t query "$target" >/dev/null 2>&1 && targets+=("$target")
  done
done
[ ${#targets[@]} -gt 0 ] || { echo "build_tests: no tests match $regex" >&2; exit 1; }
cmake --build "build/$preset" --target "${targets[@]}"
