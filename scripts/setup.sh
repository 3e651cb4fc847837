#!/usr/bin/env bash
# Installs what stepgauge is built from (Debian 12; root or sudo) and builds it. Usage: scripts/setup.sh [PRESET [TARGET...]]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift $(($# > 0))
targets=()
[ $# -eq 0 ] || targets=(--target "$@")

packages=(
  gcc g++ binutils clang clang-format clang-tidy cmake ninja-build pkg-config python3 python3-pip
  libdnnl-dev libhdf5-dev libaec-dev zlib1g-dev libgsl-dev libjansson-dev libyaml-dev libcsv-dev libcmocka-dev
  libpng-dev libjpeg-dev libavformat-dev libavcodec-dev libswscale-dev libavutil-dev
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

# Parquet tables are read by carquet's shared library, which PyPI has and Debian has not. Done once; it is no condition of the build.
carquet=0.7.2
if [ ! -f build/carquet/carquet/libcarquet.so ] || [ ! -d "build/carquet/carquet-$carquet.dist-info" ]; then
  echo "setup: installing carquet $carquet in build/carquet" >&2
  rm -rf build/carquet
  python3 -m pip install --quiet --retries 1 --timeout 15 --disable-pip-version-check --root-user-action ignore --no-deps --no-compile \
    --only-binary :all: --target build/carquet "carquet==$carquet" >&2 ||
    echo "setup: carquet $carquet cannot be had: Parquet tables will not be read" >&2
fi

[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >&2
cmake --build --preset "$preset" "${targets[@]}" >&2
