#!/usr/bin/env bash
# Makes build-arm64/root: what of a Debian for 64-bit ARM is needed to build for it and to run its programs under qemu.
# Needs root and debootstrap. Nothing of this machine's packages changes.
#
#   tools/arm64_root.sh [PACKAGE...]
#
# Of the packages those are taken that belong to an architecture: libraries and their headers.
set -euo pipefail
cd "$(dirname "$0")/.."
root=build-arm64/root
wanted=libstdc++-12-dev
for package in "$@"; do case $package in lib*|*json*|zlib*|prometheus*) wanted+=,$package ;; esac; done
[ "$(cat "$root/ready" 2> /dev/null)" = "$wanted" ] && exit 0
as_root=
if [ "$(id -u)" != 0 ]; then
  sudo -n true 2> /dev/null || { echo "bertie: $0 needs root, for debootstrap: sudo $0 $*" >&2; exit 1; }
  as_root=sudo
fi
$as_root rm -rf "$root" && mkdir -p build-arm64
echo "bertie: fetching Debian's libraries for arm64"
$as_root debootstrap --arch=arm64 --foreign --variant=minbase --include="$wanted" bookworm "$root" > build-arm64/root.log 2>&1 ||
  { tail -5 build-arm64/root.log >&2; exit 1; }
[ -z "$as_root" ] || $as_root chown -R "$(id -u)" "$root"
for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
# Links such as libz.so -> /lib/…/libz.so.1 are meant within the root.
find "$root" -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link to; do
  ln -sfn "$(realpath -sm --relative-to="$(dirname "$link")" "$root$to")" "$link"
done
echo "$wanted" > "$root/ready"
