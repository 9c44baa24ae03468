#!/bin/bash
# Formats every C++ file of the repository; with --check only says which differ, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files -z --cached --others --exclude-standard '*.cpp' '*.hpp' \
  | xargs -0 -r clang-format "${mode[@]}"
