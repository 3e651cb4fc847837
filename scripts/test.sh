#!/usr/bin/env bash
# Installs what is missing, builds and passes the tests: release with gcc, the format check, the same tests under ASan and
# UBSan, those with threads of our own under TSan, a build with clang, and a short fuzz of every reader. --quick: release only.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=${1:-}

scripts/setup.sh release
# those that neither assert ratios of times nor use both processors themselves two at a time
untimed='^(kernels|cuda|gpu)/test_ops_|^numerics/|^cuda/test_cuda_(comm|command|faults|policies|products|ranks)$'
ctest --preset release -j2 -R "$untimed"
ctest --preset release -E "$untimed"
[ "$quick" != "--quick" ] || exit 0

scripts/format.sh --check
scripts/setup.sh asan
ctest --preset asan -LE slow -j3
scripts/setup.sh tsan threads_tests
ctest --preset tsan -L threads --no-tests=error
scripts/setup.sh fuzz stepgauge sg_module_cuda_emulated # clang's warnings are errors
scripts/fuzz.sh --smoke
