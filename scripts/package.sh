#!/usr/bin/env bash
# Installs what is missing, builds for every GPU, and makes the archives to take along: the program, and the test programs
# for the machine it is taken to. Usage: scripts/package.sh. Prints the archives' paths; docs/take-along.md tells the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh package packaged
archives=build/package/archives
rm -rf "$archives"
cpack --config build/package/CPackConfig.cmake -B "$archives" >&2
rm -rf "$archives/_CPack_Packages"
ls "$archives"/*.tar.gz
