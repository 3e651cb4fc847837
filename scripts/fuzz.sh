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

# fuzz_tables reads Parquet; without the library it has nothing to do.
export STEPGAUGE_CARQUET="${STEPGAUGE_CARQUET:-$PWD/build/carquet/carquet/libcarquet.so}"

[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >&2
cmake --build --preset fuzz --target "${targets[@]}" >&2

# run TARGET: fuzzes it and says how that went; its result is the fuzzer's.
run() {
  local target=$1 corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log
  local folders=("$corpus")
  mkdir -p "$corpus"
  [ ! -d "tests/fuzz/seeds/$target" ] || folders+=("tests/fuzz/seeds/$target")
  if ! "build/fuzz/tests/$target" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -max_len=16384 \
      -artifact_prefix="build/fuzz/failures/$target-" -print_final_stats=1 "${folders[@]}" >"$log" 2>&1; then
    echo "fuzz: $target: FAILED, see $log"
    tail -n 25 "$log"
    return 1
  fi
  echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, none failed"
}

# As many at a time as there are processors.
mkdir -p build/fuzz/failures
running=() names=() failed=()
for target in "${targets[@]}" ""; do
  while [ ${#running[@]} -ge "$(nproc)" ] || { [ -z "$target" ] && [ ${#running[@]} -gt 0 ]; }; do
    wait "${running[0]}" || failed+=("${names[0]}")
    running=("${running[@]:1}") names=("${names[@]:1}")
  done
  [ -n "$target" ] || break
  run "$target" &
  running+=($!) names+=("$target")
done
[ ${#failed[@]} -eq 0 ] || { echo "fuzz: failed: ${failed[*]}" >&2; exit 1; }
