#!/usr/bin/env bash
# The archive works wherever it is unpacked: in a folder with blanks that may not be written to, called through a link,
# from another folder, without any environment, and (where this user may) in a root that holds nothing but the C and C++
# runtimes. Usage: relocation.sh ARCHIVE...
here=$(cd "$(dirname "$0")" && pwd)
. "$here/archives.sh"
unpack "$scratch/a folder/with blanks" "$@"
chmod -R a-w "$tree"
work=$scratch/work
mkdir "$work" "$scratch/links"
ln -s "$tree/bin/stepgauge" "$scratch/links/gauge"

# expect WHAT TEXT COMMAND...: COMMAND ends with status 0 and prints TEXT.
expect() {
  local what=$1 text=$2 output
  shift 2
  if ! output=$("$@" 2>&1); then
    fail "$what: $*: $output"
  elif ! grep -qF -- "$text" <<<"$output"; then
    fail "$what: \"$text\" is not in: $output"
  fi
}

# main_job WHAT CALL...: the commands that a taken-along program is for; CALL comes before each one's arguments.
main_job() {
  local what=$1
  shift
  expect "$what" "stepgauge 0" "$@" --version
  expect "$what" "ready: " "$@" devices
  expect "$what" "parameters" "$@" inspect act
  expect "$what" "x.h5" "$@" measure mlp --batch 1,2,4 --time-budget 1 --quiet -o x.h5
  expect "$what" "machine.h5" "$@" fit x.h5 -o machine.h5
  expect "$what" "step_s" "$@" predict mlp --machine machine.h5 --batch 8
  expect "$what" "L4" "$@" predict act --machine l4 --batch 8
}

cd "$work"
main_job "through a link" env -i "$scratch/links/gauge"
rm x.h5 machine.h5
expect "by its own name" "ready: " env -i "$tree/bin/stepgauge" devices
cd "$tree/bin"
expect "from its own folder" "ready: " env -i ./stepgauge devices
cd "$work"
# Rented machines set this to folders with other builds of the same libraries.
mkdir "$scratch/other"
for library in "$tree"/lib/stepgauge/lib*.so.*; do
  : >"$scratch/other/$(basename "$library")"
done
expect "beside other libraries" "ready: " env -i LD_LIBRARY_PATH="$scratch/other" "$tree/bin/stepgauge" devices
if [ -d "$tree/tests" ]; then
  while read -r program; do
    env -i "$tree/tests/$program" >test.txt 2>&1 || fail "test program $program: $(tail -n 5 test.txt)"
  done <"$tree/tests/portable.txt"
fi

# ---- a root with the C and C++ runtimes alone ----

bare=$scratch/bare
enter=(unshare --mount --pid --fork --mount-proc="$bare/proc")
[ "$(id -u)" -eq 0 ] || enter=(unshare --user --map-root-user "${enter[@]:1}")
mkdir -p "$bare/proc" "$bare/tmp" "$bare/dev"
if ! "${enter[@]}" true 2>/dev/null; then
  finish
  echo "relocation is as promised; the bare root was left out: unshare is not allowed here"
  exit 0
fi
while read -r library; do
  mkdir -p "$bare$(dirname "$library")"
  cp -L "$library" "$bare$library"
done < <(ldd "$tree"/lib/stepgauge/libdnnl.so.2 "$tree/bin/stepgauge" |
  grep -oE '/[^ ]*/(ld-linux-x86-64|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so\.[0-9]+' | sort -u)
cp -a "$tree" "$bare/take"
in_bare=(env -i "${enter[@]}" "$(command -v chroot)" "$bare" /take/bin/stepgauge)
main_job "in a bare root" "${in_bare[@]}"
find "$bare" -name 'libstdc++.so.6' -delete
expect "without the C++ runtime" "step_s" "${in_bare[@]}" predict act --machine l4 --batch 8
"${in_bare[@]}" devices >devices.txt 2>&1 && fail "without the C++ runtime the machine is not ready"
grep -qF "apt install libstdc++6" devices.txt || fail "without the C++ runtime: no remedy: $(cat devices.txt)"
finish
echo "relocation is as promised, in a bare root too"
