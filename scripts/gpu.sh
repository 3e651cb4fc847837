#!/usr/bin/env bash
# Checks stepgauge on a machine with GPUs and measures it, within ten minutes and with nothing installed.
set -uo pipefail

usage() {
  cat <<'TEXT'
Checks stepgauge on a machine with NVIDIA GPUs and measures it, within ten minutes.

Usage: gpu.sh [--out FOLDER] [--deadline SECONDS] [--small] [--cpu] [ARCHIVE... | FOLDER]

  ARCHIVE...           stepgauge-*.tar.gz, and stepgauge-tests-*.tar.gz for the test programs; or a FOLDER that holds
                       the archives, or that they were unpacked in. Without any: the folder that this script lies in,
                       then what scripts/package.sh made, which is run if there is nothing yet
  --out FOLDER         where run.h5, machine.h5, log.txt and each command's output are left
                       (default: $OUT, else stepgauge-gpu in the current folder)
  --deadline SECONDS   for everything together (default 560); what does not fit is left out and counts as failed
  --small              the same list with small policies and a second or so each
  --cpu                that on the processor: whether this script works, without a GPU

The machine needs bash, tar, gzip, coreutils, glibc 2.35 or later, libstdc++ of GCC 12 or later, the NVIDIA driver and the
CUDA libraries (`stepgauge devices` names what is missing; STEPGAUGE_CUDA_LIBS says where they are).

A step that fails is logged and the next one runs; what was measured stays. Exit status: 0 all passed; 1 a step failed;
2 bad usage; 3 no GPU here; 130 interrupted.
TEXT
}

die() { # STATUS TEXT
  echo "gpu.sh: $2" >&2
  exit "$1"
}

# ---- what was asked ----------------------------------------------------------------------------------------------

out=${OUT:-stepgauge-gpu}
deadline_s=560
device=cuda
small=
given=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help | -h) usage; exit 0 ;;
    --cpu) device=cpu small=yes ;;
    --small) small=yes ;;
    --out) [ $# -gt 1 ] || die 2 "--out needs a folder"; out=$2; shift ;;
    --deadline) [ $# -gt 1 ] || die 2 "--deadline needs seconds"; deadline_s=$2; shift ;;
    -*) die 2 "unknown option $1; --help lists them" ;;
    *) given+=("$1") ;;
  esac
  shift
done
[[ $deadline_s =~ ^[1-9][0-9]{0,5}$ ]] || die 2 "--deadline: '$deadline_s' is no number of seconds"
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)

now_us() { echo "${EPOCHREALTIME/[.,]/}"; }
start_us=$(now_us)
elapsed_s() { echo $((($(now_us) - start_us) / 1000000)); }

# Those that the environment shows to programs, as CUDA counts them; then what the driver tells.
count_gpus() {
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    local shown=${CUDA_VISIBLE_DEVICES//[[:space:]]/} names
    case "$shown" in "" | -1 | NoDevFiles | none) echo 0; return ;; esac
    IFS=, read -ra names <<<"$shown"
    echo ${#names[@]}
    return
  fi
  local listed nodes
  listed=$(timeout 20 nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
  if [ "${listed:-0}" -gt 0 ]; then
    echo "$listed"
    return
  fi
  nodes=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' 2>/dev/null | wc -l)
  echo "$nodes"
}

gpus=0
if [ "$device" = cuda ]; then
  gpus=$(count_gpus)
  [ "$gpus" -gt 0 ] || die 3 "no NVIDIA GPU is here (no /dev/nvidia0, nvidia-smi lists none, or CUDA_VISIBLE_DEVICES hides \
them); --cpu runs the same list on the processor"
fi
{ mkdir -p "$out" && [ -w "$out" ]; } 2>/dev/null || die 2 "cannot write to $out"
out=$(cd "$out" && pwd)

# ---- the program -------------------------------------------------------------------------------------------------

scratch=$(mktemp -d) || die 3 "no scratch folder: set TMPDIR to one that can be written to"
child=
leave() {
  [ -z "$child" ] || { kill -INT "$child" && wait "$child"; } 2>/dev/null
  rm -rf "$scratch"
}
trap leave EXIT
trap 'echo "gpu.sh: interrupted; what there is lies in $out" >&2; exit 130' INT TERM

# Archives of a folder, the newest last version of each; nothing where there are none.
archives_of() {
  local part
  for part in 'stepgauge-[0-9]*.tar.gz' 'stepgauge-tests-[0-9]*.tar.gz'; do
    find "$1" -maxdepth 1 -name "$part" | sort -V | tail -n 1
  done
}

# The folder of an unpacked program at or right below $1.
tree_of() {
  local folder
  for folder in "$1" "$1"/stepgauge-*; do
    if [ -x "$folder/bin/stepgauge" ]; then
      (cd "$folder" && pwd)
      return
    fi
  done
}

# unpack ARCHIVE...: into the scratch folder, and $tree is where. The test programs beside a single archive come along.
unpack() {
  local archive tests
  if [ $# -eq 1 ]; then
    tests=$(dirname "$1")/$(basename "$1" | sed 's/^stepgauge-/stepgauge-tests-/')
    [ "$tests" -ef "$1" ] || [ ! -f "$tests" ] || set -- "$1" "$tests"
  fi
  for archive; do
    [ -f "$archive" ] || die 2 "$archive is no archive and no folder"
    tar -xzf "$archive" -C "$scratch" || die 3 "$archive cannot be unpacked to $scratch"
  done
  tree=$(tree_of "$scratch")
}

tree=
if [ ${#given[@]} -eq 1 ] && [ -d "${given[0]}" ]; then
  places=("${given[0]}")
elif [ ${#given[@]} -gt 0 ]; then
  places=()
  unpack "${given[@]}"
else
  places=("$here" "$here/../build/package/archives")
  [[ $here != */share/stepgauge ]] || places=("$here/../.." "$here/../../..")
fi
look() {
  local place archives
  for place in "${places[@]}"; do
    tree=$(tree_of "$place")
    [ -z "$tree" ] || return 0
    [ -d "$place" ] || continue
    mapfile -t archives < <(archives_of "$place")
    [[ ${archives[0]:-} == *stepgauge-[0-9]* ]] || continue
    unpack "${archives[@]}"
    return 0
  done
}
[ -n "$tree" ] || look
if [ -z "$tree" ] && [ ${#given[@]} -eq 0 ] && [ -x "$here/package.sh" ] && command -v cmake >/dev/null; then
  "$here/package.sh" >&2 && look
fi
[ -n "$tree" ] || die 2 "no stepgauge found: give its archive (scripts/package.sh makes it) or the folder it was unpacked in"
program=$tree/bin/stepgauge
unset STEPGAUGE_MODULES STEPGAUGE_CONFIGS
export STEPGAUGE_PROGRAM=$program

# ---- steps -------------------------------------------------------------------------------------------------------

log=$out/log.txt
passed=0 failed=0 skipped=0 number=0

say() { printf '%s\n' "$*" | tee -a "$log"; }

# note WHAT SECONDS COMMAND...: one line of the log.
note() {
  local what=$1 seconds=$2
  shift 2
  say "$(printf '%8s s  %-9s  %s' "$seconds" "$what" "$*")"
}

# run LIMIT_S FILE COMMAND...: sets $status and $seconds. An interrupt first, so that a measurement keeps what it has.
run() {
  local limit_s=$1 file=$2 begin_us
  shift 2
  begin_us=$(now_us)
  timeout --signal=INT --kill-after=5 "$limit_s" "$@" >"$file" 2>&1 </dev/null &
  child=$!
  wait "$child"
  status=$?
  child=
  local tenths=$((($(now_us) - begin_us) / 100000))
  seconds=$((tenths / 10)).$((tenths % 10))
}

# step NAME LIMIT_S COMMAND...: one command, its output in a file of its own, one line of the log; the status is kept.
step() {
  local name=$1 limit_s=$2 left_s=$((deadline_s - 6 - $(elapsed_s))) file shown
  shift 2
  number=$((number + 1))
  file=$out/$(printf '%02d' "$number")-$name.txt
  shown=$*
  shown=${shown//$tree\//}
  shown=${shown//$out\//}
  if [ "$left_s" -lt 2 ]; then
    failed=$((failed + 1))
    status=124
    note "no time" 0.0 "$shown"
    return
  fi
  [ "$limit_s" -le "$left_s" ] || limit_s=$left_s
  run "$limit_s" "$file" "$@"
  if [ "$status" -eq 77 ] && [[ $name == test_* ]]; then
    skipped=$((skipped + 1))
    note skipped "$seconds" "$shown"
    tail -n 2 "$file" | sed 's/^/                          /' | tee -a "$log"
    return
  fi
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    note passed "$seconds" "$shown"
    return
  fi
  failed=$((failed + 1))
  case "$status" in
    124 | 137) note "over ${limit_s} s" "$seconds" "$shown" ;;
    *) note "status $status" "$seconds" "$shown" ;;
  esac
  tail -n 8 "$file" | sed 's/^/                          /' | tee -a "$log"
}

gauge() { # NAME LIMIT_S ARGUMENTS...
  local name=$1 limit_s=$2
  shift 2
  step "$name" "$limit_s" "$program" "$@"
}

# What the machine is, for whoever reads the log elsewhere. Nothing of it is a check.
describe() {
  echo "$("$program" --version 2>&1), $(date -u +%Y-%m-%dT%H:%M:%SZ), on $device, $gpus GPU(s), $(nproc) processors"
  uname -srm
  sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null
  getconf GNU_LIBC_VERSION 2>/dev/null
  grep -m 1 'model name' /proc/cpuinfo
  grep -E 'MemTotal|MemAvailable' /proc/meminfo
  env | grep -E '^(CUDA|NVIDIA|NCCL|LD_LIBRARY_PATH|VIRTUAL_ENV|CONDA_PREFIX|STEPGAUGE)' | sort
  [ "$device" = cpu ] || timeout 20 nvidia-smi 2>&1
}

# run_tests LABEL DEVICE: the programs of tests/LABEL.txt, each by itself, so that one that hangs or dies leaves the others'
# results. $until_s is when their share of the time is over.
run_tests() {
  local name limit_s
  [ -r "$tree/tests/$1.txt" ] || return 0
  export SG_TEST_DEVICE=$2
  while read -r name; do
    [ -n "$name" ] || continue
    limit_s=$((until_s - $(elapsed_s)))
    [ "$limit_s" -lt 90 ] || limit_s=90
    [ "$limit_s" -gt 1 ] || limit_s=1
    step "$name" "$limit_s" "$tree/tests/$name"
  done <"$tree/tests/$1.txt"
}

# On a machine with GPUs some test has to have run on one.
test_gpu() {
  local before=$passed
  run_tests gpu cuda
  [ "$passed" -eq "$before" ] || return 0
  failed=$((failed + 1))
  if [ -s "$tree/tests/gpu.txt" ]; then
    note missing 0.0 "no test program passed on a GPU"
  else
    note missing 0.0 "no test programs for GPUs: give stepgauge-tests-*.tar.gz too"
  fi
}

: >"$log"
describe | tee -a "$log"
say ""
cd "$scratch" || die 3 "the scratch folder is gone"

until_s=$(($(elapsed_s) + deadline_s / 3))
run_tests portable cpu
[ "$device" = cpu ] || test_gpu
gauge devices 30 devices

# --time-budget is for each point or device; the limits are for the whole command.
if [ -z "$small" ]; then
  bench_s=10 gemm_s=25 exchange_s=20
  act=(--batch 8,16,32 --time-budget 12)
  smolvla=(--batch 1,4,8 --time-budget 12)
  ppo=(--time-budget 6) envs=(1024 2048 4096)
  scaled=(--batch 8 --time-budget 20)
else
  bench_s=1 gemm_s=1 exchange_s=1
  act_size=(--cameras 1 --image-size 64x64 --set backbone_width=16 --set dim_model=128
    --set dim_feedforward=256)
  act=(--batch 1,2,3 "${act_size[@]}" --time-budget 1)
  smolvla=(--batch 1,2,3 --cameras 1 --image-size 64x64 --set num_vlm_layers=2 --set vision_num_hidden_layers=2
    --set text_hidden_size=192 --set vocab_size=1000 --set resize_imgs_with_padding=128,128 --set chunk_size=10 --time-budget 1)
  ppo=(--steps-per-env 4 --set actor_hidden_dims=64,64 --set critic_hidden_dims=64,64 --time-budget 1) envs=(8 16 32)
  scaled=(--batch 1 "${act_size[@]}" --time-budget 1)
fi
on=(--device "$device")
kept=(--quiet -o "$out/run.h5")

# Products on every device that is here: what the GPU gains, and where the transfer eats it.
products_on=()
[ "$device" = cuda ] || products_on=("${on[@]}")
gauge bench-gemm 75 bench gemm "${products_on[@]}" --time-budget "$gemm_s" "${kept[@]}"
for what in memory copy launch; do
  gauge "bench-$what" 30 bench "$what" "${on[@]}" --time-budget "$bench_s" "${kept[@]}"
done
if [ "$gpus" -gt 1 ]; then
  gauge bench-collective 60 bench collective "${on[@]}" --gpus "$gpus" --time-budget "$exchange_s" "${kept[@]}"
fi
gauge measure-act 75 measure act "${on[@]}" "${act[@]}" "${kept[@]}"
gauge measure-smolvla 75 measure smolvla "${on[@]}" "${smolvla[@]}" "${kept[@]}"
for count in "${envs[@]}"; do
  gauge "measure-ppo-$count" 25 measure ppo "${on[@]}" --envs "$count" "${ppo[@]}" "${kept[@]}"
done
if [ "$gpus" -gt 1 ]; then
  gauge measure-act-gpus 60 measure act "${on[@]}" "${scaled[@]}" --gpus "$gpus" "${kept[@]}"
fi
gauge fit 20 fit "$out/run.h5" act -o "$out/machine.h5"
gauge predict-act 10 predict act --machine "$out/machine.h5" --batch 8
gauge predict-smolvla 10 predict smolvla --machine "$out/machine.h5" --batch 8
gauge predict-ppo 10 predict ppo --machine "$out/machine.h5" --envs 4096

say ""
say "$passed passed, $failed failed, $skipped skipped in $(elapsed_s) s"
say "Left in $out: $(cd "$out" && ls run.h5 machine.h5 log.txt 2>/dev/null | tr '\n' ' ')"
[ "$failed" -eq 0 ] || exit 1
