#!/usr/bin/env bash
# Installs what is missing, builds, and runs the program with the given arguments; without any, the main job:
# measure this machine with ACT, fit, and say what the training needs here and what to rent.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
"$here/scripts/setup.sh" release
[ $# -gt 0 ] || set -- gauge act --dataset "$here/configs/datasets/svla_so101_pickplace"
exec "$here/build/release/stepgauge" "$@"
