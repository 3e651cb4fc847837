#!/usr/bin/env bash
# The script for GPU machines: its list runs on the processor; a step that fails or hangs costs that step alone; what is
# missing is said. Usage: gpu_script.sh GPU.SH ARCHIVE...
here=$(cd "$(dirname "$0")" && pwd)
. "$here/archives.sh"
script=$1
shift
unset OUT
cd "$scratch"
mkdir temporary
export TMPDIR=$scratch/temporary

# ends WHAT STATUS COMMAND...: COMMAND ends with STATUS; what it prints is in $output.
ends() {
  local what=$1 wanted=$2 status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  [ "$status" -eq "$wanted" ] || fail "$what: status $status, not $wanted: $output"
}

has() { # WHAT TEXT
  grep -qE -- "$2" <<<"$output" || fail "$1: \"$2\" is not in: $output"
}

# ---- the whole list, on the processor ----

begin_s=$SECONDS
ends "on the processor" 0 "$script" --cpu --out "$scratch/on the processor" "$@"
[ $((SECONDS - begin_s)) -lt 60 ] || fail "on the processor: $((SECONDS - begin_s)) s, a minute is promised"
has "on the processor" 'passed +tests/test_ops_kinds'
for step in devices 'bench gemm' 'bench memory' 'bench copy' 'bench launch' 'measure act' 'measure smolvla' 'measure ppo' 'fit run.h5' 'predict act' 'predict ppo'; do
  has "on the processor" "[0-9.]+ s +passed +bin/stepgauge $step"
done
has "on the processor" ' 0 failed'
for file in run.h5 machine.h5 log.txt; do
  [ -s "$scratch/on the processor/$file" ] || fail "on the processor: no $file"
done

# ---- steps that fail and hang: a program that only pretends, in a folder as the archives unpack to ----

mkdir -p fake/bin fake/tests
cat >fake/bin/stepgauge <<'TEXT'
#!/usr/bin/env bash
case "$*" in
  *"measure act "*) echo "no such luck"; exit 3 ;;
  *"measure smolvla "*) trap '' INT; while :; do sleep 0.2; done ;;
esac
echo "did $*"
TEXT
printf '#!/bin/sh\n[ "$SG_TEST_DEVICE" = cuda ]\n' >fake/tests/test_one
printf '#!/bin/sh\necho "skipped: one GPU is here"\nexit 77\n' >fake/tests/test_two
printf 'test_one\ntest_two\n' >fake/tests/gpu.txt
chmod +x fake/bin/stepgauge fake/tests/test_*

begin_s=$SECONDS
ends "failing steps" 1 env CUDA_VISIBLE_DEVICES=0,1 "$script" --deadline 12 --out failing fake
[ $((SECONDS - begin_s)) -le 14 ] || fail "failing steps: $((SECONDS - begin_s)) s, the deadline was 12 s"
has "failing steps" 'passed +tests/test_one'
has "failing steps" 'skipped +tests/test_two'
has "failing steps" 'skipped: one GPU is here'
has "failing steps" 'passed +bin/stepgauge bench collective --device cuda --gpus 2 '
has "failing steps" 'status 3 +bin/stepgauge measure act'
has "failing steps" 'no such luck'
has "failing steps" 'over [0-9]+ s +bin/stepgauge measure smolvla'
has "failing steps" 'no time +bin/stepgauge predict ppo'
[ -s failing/log.txt ] || fail "failing steps: no log"

echo test_two >fake/tests/gpu.txt
printf '#!/bin/sh\necho "did $*"\n' >fake/bin/stepgauge
ends "all skipped" 1 env CUDA_VISIBLE_DEVICES=0 "$script" --out skipped fake
has "all skipped" 'no test program passed on a GPU'
has "all skipped" ' 1 failed, 1 skipped'
rm fake/tests/gpu.txt
ends "no tests" 1 env CUDA_VISIBLE_DEVICES=0 "$script" --out skipped fake
has "no tests" 'no test programs for GPUs'

# ---- an interrupt keeps what there is and leaves no process ----

cat >fake/bin/stepgauge <<'TEXT'
#!/usr/bin/env bash
[[ "$*" != *"measure smolvla "* ]] || { trap 'echo kept; exit 130' INT; while :; do sleep 0.1; done; }
TEXT
set -m # job control: an interrupt reaches background jobs
"$script" --cpu --out interrupted fake >interrupted.txt 2>&1 &
runner=$!
set +m
for _ in $(seq 100); do
  compgen -G 'interrupted/*-measure-smolvla.txt' >/dev/null && break
  sleep 0.1
done
sleep 0.3
kill -INT "$runner"
status=0
wait "$runner" || status=$?
[ "$status" -eq 130 ] || fail "interrupted: status $status: $(cat interrupted.txt)"
grep -q kept interrupted/*-measure-smolvla.txt || fail "interrupted: the running command was not told"

# ---- what is missing ----

ends "no GPU" 3 env CUDA_VISIBLE_DEVICES= "$script" --out none fake
has "no GPU" 'no NVIDIA GPU is here'
ends "no program" 2 "$script" --cpu --out none "$scratch/failing"
has "no program" 'no stepgauge found'
ends "no archive" 2 "$script" --cpu --out none absent.tar.gz
ends "bad option" 2 "$script" --fast
ends "bad deadline" 2 "$script" --deadline soon
ends "help" 0 "$script" --help
has "help" 'Usage: gpu.sh'
[ -z "$(ls temporary)" ] || fail "left behind: $(ls temporary)"
finish
echo "the script for GPU machines does as promised"
