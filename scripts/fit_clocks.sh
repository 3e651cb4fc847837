#!/bin/sh
# Renews step_stretch in the machines' sheets from a table of measured steps: after every change of how kernels are priced.
#   scripts/fit_clocks.sh STEPS.csv MODELS.csv [NOTE]       NOTE: where the table is from, with a date
set -eu
steps=$1 models=$2 note=${3:-}
folder=$(dirname "$0")/..
program=${STEPGAUGE_PROGRAM:-$folder/build/release/stepgauge}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
"$program" fit --steps "$steps" --configs "$models" -o "$lines"
sheet=
while IFS= read -r line; do
    case $line in
    '# '*) sheet=$folder/${line#\# } ;;
    *)
        [ -z "$note" ] || line=$(printf '%s' "$line" | sed "s|\"}\$|; $note\"}|")
        grep -v '^  step_stretch:' "$sheet" >"$sheet.new"
        printf '%s\n' "$line" >>"$sheet.new"
        mv "$sheet.new" "$sheet"
        ;;
    esac
done <"$lines"
