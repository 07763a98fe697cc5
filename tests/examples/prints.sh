#!/bin/sh
# Runs a program, which must succeed and print a line with the expected text.
#   tests/examples/prints.sh EXPECTED PROGRAM [ARGUMENTS]
set -eu
expected=$1
shift
output=$("$@")
echo "$output"
echo "$output" | grep -qF -- "$expected" || { echo "expected: $expected"; exit 1; }
