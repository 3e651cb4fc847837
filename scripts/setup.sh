#!/usr/bin/env bash
# Installs what stepgauge is built from (Debian 12; root or sudo) and builds it. Usage: scripts/setup.sh [PRESET [TARGET...]]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift $(($# > 0))
targets=()
[ $# -eq 0 ] || targets=(--target "$@")

packages=(
  gcc g++ binutils clang clang-format clang-tidy cmake ninja-build pkg-config python3
  libdnnl-dev libhdf5-dev libaec-dev zlib1g-dev libgsl-dev libjansson-dev libyaml-dev libcsv-dev libcmocka-dev
  libopenmpi-dev openmpi-bin libclang-rt-14-dev
)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: ${missing[*]} must be installed: run this as root or install sudo" >&2; exit 3; }
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >&2
cmake --build --preset "$preset" "${targets[@]}" >&2
