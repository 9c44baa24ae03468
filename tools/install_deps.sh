#!/bin/bash
# Installs the Debian packages that the build, the tests and the demos need, those that are missing.
# Quick, and asks for no rights, when all are there. With the argument "rivals" also what benchmarks
# compare with.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache git
  libdnnl-dev libhwy-dev libflatbuffers-dev flatbuffers-compiler libonnx-dev libprotobuf-dev
  protobuf-compiler libhwloc-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev libonnx-testdata
  espeak-ng fonts-dejavu-core python3-venv clang-format clang-tidy
)
[ "${1:-}" = rivals ] && packages+=(libopenmpi-dev openmpi-bin)

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "install_deps: ${missing[*]} are missing, and there is no sudo: install them as root" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "install_deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${missing[@]}"
