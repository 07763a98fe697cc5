#!/bin/sh
# Runs an example with a model and looks for a line in what it prints; without the model it is skipped (77).
#   tests/examples/run.sh EXAMPLE EXPECTED_LINE [FOLDER of tests/golden/tasks; else MiniLM]
set -eu
here=$(dirname "$0")
if [ $# -gt 2 ]; then
  model=$here/../golden/tasks/$3
else
  model=${BERTIE_DATA:-$here/../../../shared/data}/models/all-MiniLM-L6-v2
  [ -e "$model" ] || { echo "$model is not here"; exit 77; }
fi
output=$("$1" "$model")
echo "$output"
echo "$output" | grep -qF -- "$2" || { echo "expected: $2"; exit 1; }

# And where there is no model it says so and fails.
if "$1" /no/such/model 2> /dev/null; then
  echo "a missing model should be an error"
  exit 1
fi
