#!/usr/bin/env bash
# Installs what is missing, builds, and makes the archives to take along: the program, and the test programs for the
# machine it is taken to. Usage: scripts/package.sh [PRESET]. Prints their paths.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
build=build/$preset
scripts/setup.sh "$preset" all
rm -rf "$build/package"
cpack --config "$build/CPackConfig.cmake" -B "$build/package" >&2
rm -rf "$build/package/_CPack_Packages"
ls "$build"/package/*.tar.gz
