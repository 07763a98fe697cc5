#!/usr/bin/env bash
# Makes the packages of the last commit twice, in clones of different paths, and compares their bytes.
#
#   tools/test_reproducible.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for place in one quite/another; do
  git clone -q . "$work/$place"
  "$work/$place/tools/package.sh" > "$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
done
diff "$work/one/build-package/out/SHA256SUMS" "$work/quite/another/build-package/out/SHA256SUMS"
cat "$work/one/build-package/out/SHA256SUMS"
echo "the same bytes twice"
