#!/bin/bash
# Makes build/venv with the packages of tools/requirements.txt, each checked against its checksum.
# Does nothing when that is done already.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/venv
stamp=$venv/requirements.txt
cmp -s tools/requirements.txt "$stamp" && exit 0

python=/usr/bin/python3  # the distribution's: the checksums are those of wheels for it
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$version" != 3.11 ]; then
  echo "setup_python: $python is $version, tools/requirements.txt pins wheels for 3.11" >&2
  exit 1
fi
echo "setup_python: making $venv"
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --no-deps \
  --require-hashes -r tools/requirements.txt
cp tools/requirements.txt "$stamp"
