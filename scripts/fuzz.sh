#!/usr/bin/env bash
# Builds and runs every fuzz target. Usage: scripts/fuzz.sh [SECONDS | --smoke] [TARGET...]
# SECONDS per target (default 60); --smoke: 3 seconds each, for every push. Inputs that are worth keeping stay in
# build/fuzz/corpus/TARGET; seeds come from tests/fuzz/seeds/TARGET where that exists. An input that fails is left in
# build/fuzz/failures, and the script ends with status 1 after all targets have run.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=60
case "${1:-}" in
  --smoke) seconds=3; shift ;;
  [0-9]*) seconds=$1; shift ;;
esac

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    targets+=("$(basename "$source" .c)")
  done
fi

[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >&2
cmake --build --preset fuzz --target "${targets[@]}" >&2

mkdir -p build/fuzz/failures
failed=()
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus"
  folders=("$corpus")
  [ ! -d "tests/fuzz/seeds/$target" ] || folders+=("tests/fuzz/seeds/$target")
  log=build/fuzz/$target.log
  if "build/fuzz/tests/$target" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -max_len=16384 \
      -artifact_prefix="build/fuzz/failures/$target-" -print_final_stats=1 "${folders[@]}" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "fuzz: $target: $runs inputs in $seconds s, none failed"
  else
    echo "fuzz: $target: FAILED, see $log"
    tail -n 25 "$log"
    failed+=("$target")
  fi
done
[ ${#failed[@]} -eq 0 ] || { echo "fuzz: failed: ${failed[*]}" >&2; exit 1; }
