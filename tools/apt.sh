#!/usr/bin/env bash
# apt-get on this machine's mirrors, but for another kind of package or another Debian; nothing of this machine's lists or
# packages changes, and it needs no root.
#
#   tools/apt.sh deb|deb-src SUITE COMMAND...     e.g. tools/apt.sh deb bullseye download libc6-dev
set -euo pipefail
kind=$1 suite=$2
shift 2
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/sources"
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  [ -f "$list" ] && sed -E "s/^Types:.*/Types: $kind/; s/^deb(-src)? /$kind /; s/\b$here\b/$suite/g" "$list" > "$state/sources/${list##*/}"
done
[ "$kind" = deb-src ] || : > "$state/status" # as if nothing were installed: what is here may be newer
options=(-qq -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$state/sources" -o "Dir::State::lists=$state/lists"
  -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o "APT::Sandbox::User=")
[ ! -f "$state/status" ] || options+=(-o "Dir::State::status=$state/status")
apt-get "${options[@]}" update > "$state/log" 2>&1 || true # others than Debian may not have it
apt-get "${options[@]}" "$@" >> "$state/log" 2>&1 || { cat "$state/log" >&2; exit 1; }
