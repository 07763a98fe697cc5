#!/bin/bash
# Runs the commands of docs/tour.md, each as it stands there. Usage: run.sh BERTIE TOUR [--slow]. Exit code 77: this
# program has no model of its own, which they need.
set -euo pipefail
bertie=$(realpath "$1") tour=$(realpath "$2") slow=${3:-}
if ! "$bertie" models --json 2> /dev/null | grep -q 'bertie-mini'; then
  echo "skipped: no model is part of this program"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
mkdir bin words
ln -s "$bertie" bin/bertie
export PATH=$scratch/bin:$PATH
unset BERTIE_MODEL
commands=$(sed -n 's/^    //p' "$tour")
[ -n "$slow" ] || commands=$(grep -v '# slow$' <<< "$commands")
count=0
while IFS= read -r line; do
  case $line in
    far\(\)*) eval "$line"; continue ;;
  esac
  eval "$line" < /dev/null > out.txt 2> err.txt || { echo "failed: $line"; cat err.txt; exit 1; }
  [ -s out.txt ] || [[ $line == *'>'* ]] || { echo "says nothing: $line"; exit 1; }
  count=$((count + 1))
done <<< "$commands"
[ $count -gt 15 ] || { echo "only $count commands were found"; exit 1; }
echo "$count commands of the tour run"
