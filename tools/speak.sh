#!/bin/bash
# Speaks sentences with silences between them into a WAV file of 16 kHz, mono, 16 bit.
# usage: speak.sh OUT.wav [SENTENCE ...]
set -euo pipefail
cd "$(dirname "$0")/.."

output=$1
shift
sentences=("$@")
if [ ${#sentences[@]} -eq 0 ]; then
  sentences=(
    "Tilemesh runs compiled tensor programs on a mesh of devices."
    "The weights stay where they are, and the state stays with them."
    "Only the sound goes in, and only a number comes out."
  )
fi

parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT
files=()
for sentence in "${sentences[@]}"; do
  file=$parts/${#files[@]}.wav
  espeak-ng -v en-us -s 150 -w "$file" "$sentence"
  files+=("$file")
done
mkdir -p "$(dirname "$output")"
build/venv/bin/python tools/join_speech.py "$output" "${files[@]}"
