# What the checks of the archives share: a scratch folder that goes away, and failing with a reason.
set -euo pipefail
scratch=$(mktemp -d)
leave() {
  chmod -R u+w "$scratch" 2>/dev/null || true
  rm -rf "$scratch"
}
trap leave EXIT

failures=0
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# finish: what to call last.
finish() {
  [ "$failures" -eq 0 ] || { echo "$failures failure(s)" >&2; exit 1; }
}

# unpack FOLDER ARCHIVE...: unpacks all into FOLDER; $tree is then the folder that they have in common.
unpack() {
  local folder=$1 archive
  shift
  mkdir -p "$folder"
  for archive in "$@"; do
    tar -xzf "$archive" -C "$folder"
  done
  local trees=("$folder"/*)
  [ ${#trees[@]} -eq 1 ] || { echo "archives have no one folder in common: ${trees[*]}" >&2; exit 1; }
  tree=${trees[0]}
}
