#!/bin/sh
# Runs an example with MiniLM and looks for a line in what it prints; without the model it is skipped (77).
#   tests/examples/run.sh EXAMPLE EXPECTED_LINE
set -eu
model=${BERTIE_DATA:-$(dirname "$0")/../../../shared/data}/models/all-MiniLM-L6-v2
[ -e "$model" ] || { echo "$model is not here"; exit 77; }
output=$("$1" "$model")
echo "$output"
echo "$output" | grep -qF -- "$2" || { echo "expected: $2"; exit 1; }

# And where there is no model it says so and fails.
if "$1" /no/such/model 2> /dev/null; then
  echo "a missing model should be an error"
  exit 1
fi
