#!/bin/sh
# Runs an example with a model and looks for a line in what it prints; without the model it is skipped (77).
#   tests/examples/run.sh EXAMPLE EXPECTED_LINE [FOLDER of tests/golden/tasks; else MiniLM]
# An example without arguments is run in the folder that MiniLM is in.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -gt 2 ]; then
  model=$here/../golden/tasks/$3
else
  model=${BERTIE_DATA:-$here/../../../shared/data}/models/all-MiniLM-L6-v2
  [ -e "$model" ] || { echo "$model is not here"; exit 77; }
fi
missing=/no/such/model
if [ "$(basename "$1")" = example_hello ]; then
  output=$(cd "$(dirname "$model")" && "$1")
  missing=
  export HF_HUB_CACHE=/no/such/cache
else
  output=$("$1" "$model")
fi
echo "$output"
echo "$output" | grep -qF -- "$2" || { echo "expected: $2"; exit 1; }

# And where there is no model it names it and fails in order.
code=0
errors=$(cd / && "$1" $missing 2>&1 > /dev/null) || code=$?
echo "$errors"
[ "$code" -eq 1 ] || { echo "a missing model: exit code $code, not 1"; exit 1; }
echo "$errors" | grep -qF -- "${missing:-all-MiniLM-L6-v2}" || { echo "the model's name is not in the error"; exit 1; }
