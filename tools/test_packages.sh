#!/usr/bin/env bash
# Installs what tools/package.sh made into a fresh Debian, in a folder of its own, and uses it there. Needs root and
# debootstrap.
#
#   tools/test_packages.sh [SUITE...]     (default: bookworm, bullseye)
#
# The Debian packages are for the Debian that they were built on; of others the tarball is tried alone.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/build-package/out
work=$(mktemp -d)
clean() { for at in "$work"/*/proc; do umount "$at" 2> /dev/null || true; done; rm -rf --one-file-system "$work"; }
trap clean EXIT
built_on=$(. /etc/os-release && echo "$VERSION_CODENAME")
fails=0

say() { echo "$suite: $*"; }
in_debian() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
check() { # what it should say, then a command
  local expected=$1 printed
  shift
  if printed=$(in_debian "$@" 2>&1) && grep -q -- "$expected" <<< "$printed"; then say "ok: ${*: -1}"
  else say "FAILED: $*"; head -20 <<< "$printed"; fails=$((fails + 1)); fi
}
use() { # the program, by its path: what needs no files beside it
  check "0\." "$1" --version
  check "born" "$1" fill-mask "He was [MASK] in London in 1897."
  check "384\|256" "$1" embed --json "hello world"
  check "You found me\|found" "$1" explain
}

[ $# -gt 0 ] || set -- bookworm bullseye
for suite in "$@"; do
  root=$work/$suite
  say "making a Debian"
  debootstrap --variant=minbase "$suite" "$root" > "$work/debootstrap.log" 2>&1 || { tail -5 "$work/debootstrap.log"; exit 1; }
  mount -t proc proc "$root/proc" # by which a program knows the folder that it is in
  cp "$out"/* "$root/root"
  in_debian sh -c 'apt-get -qq update && apt-get -qq install -y xz-utils' > "$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; exit 1; }
  in_debian sh -c 'cd /opt && tar xf /root/bertie-*.tar.xz && mv bertie-*-linux-* bertie'
  say "glibc is $(in_debian ldd --version | head -1 | grep -o '[0-9.]*$')"
  use /opt/bertie/bin/bertie
  check "^0$" sh -c 'ldd /opt/bertie/bin/bertie | grep -vE "linux-vdso|/(ld-linux|lib(c|m|dl|pthread))[-.]" | wc -l'
  [ "$suite" = "$built_on" ] || continue
  say "installing the packages" # procps: the kill by which systemd reloads
  in_debian sh -c 'apt-get -qq install -y --no-install-recommends /root/*.deb g++ pkg-config man-db systemd procps' > "$work/apt.log" 2>&1 ||
    { tail -5 "$work/apt.log"; exit 1; }
  use /usr/bin/bertie
  check "fill-mask" man bertie
  check "^3$" sh -c 'ls /usr/share/bash-completion/completions/bertie /usr/share/zsh/site-functions/_bertie \
    /usr/share/fish/vendor_completions.d/bertie.fish | wc -l'
  check "ExecStart=/usr/bin/bertie" cat /usr/lib/systemd/system/bertie.service
  check "^0$" sh -c 'systemd-analyze verify --man=no bertie.socket bertie.service 2>&1 | tee /dev/stderr | wc -l'
  sed 's/all-MiniLM-L6-v2/bertie-mini/' examples/hello.cc > "$root/root/hello.cc"
  check "256 numbers" sh -c 'cd /root && g++ -std=c++20 hello.cc $(pkg-config --cflags --libs bertie) -o hello && ./hello'
  in_debian sh -c 'apt-get -qq purge -y bertie bertie-mpi "libbertie*"' > /dev/null 2>&1
  check "^0$" sh -c 'find / -xdev -name "*bertie*" -not -path "/root/*" -not -path "/opt/*" -not -path "/var/*" | wc -l'
done
exit $((fails > 0))
