#!/usr/bin/env bash
# Installs what is missing, builds and passes the tests: release with gcc, the same under ASan and UBSan, threads under
# TSan, a clang build, a short fuzz of every reader, and the format check. --quick: the release tests only.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=${1:-}

scripts/setup.sh release
ctest --preset release
[ "$quick" != "--quick" ] || exit 0

scripts/format.sh --check
scripts/setup.sh asan
ASAN_OPTIONS=detect_leaks=1 ctest --preset asan -LE "slow|speed"
scripts/setup.sh tsan
ctest --preset tsan -L threads
scripts/setup.sh clang
scripts/fuzz.sh --smoke
