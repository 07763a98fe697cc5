#!/usr/bin/env bash
# Debian packages and a tarball of this commit, into build-package/out; a second run should give the same bytes.
#
#   tools/package.sh
#
# The tarball is one folder: bin/bertie, and in lib/ every library that it needs but glibc's, so that it runs wherever
# glibc is as new as the line at the end says.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(cat VERSION) arch=$(dpkg --print-architecture)
build=build-package out=build-package/out
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)
cmake --preset package -DCMAKE_CXX_FLAGS="-ffile-prefix-map=$PWD=." > /dev/null
cmake --build $build -j "${JOBS:-$(nproc)}"
rm -rf "$out" && mkdir -p "$out"
(cd $build && cpack -B out > cpack.log) || { cat $build/cpack.log; exit 1; }
rm -rf "$out/_CPack_Packages"

name=bertie-$version-linux-$(uname -m)
folder=$build/$name
rm -rf "$folder" && mkdir -p "$folder/lib"
DESTDIR=$PWD/$build/stage cmake --install $build --component program --strip > /dev/null
cp -r $build/stage/usr/bin $build/stage/usr/share "$folder"
rm -rf "$folder/share/doc" $build/stage
# What the dynamic linker finds, but for glibc itself, which belongs to the system.
ldd "$folder/bin/bertie" | awk '$2 == "=>" {print $3}' | grep -vE '/(ld-linux|lib(c|m|dl|pthread|rt|resolv))[-.]' |
  xargs cp -Lt "$folder/lib"
patchelf --set-rpath '$ORIGIN/../lib' "$folder/bin/bertie"
for library in "$folder"/lib/*; do patchelf --set-rpath '$ORIGIN' "$library"; done
cp LICENSE README.md CHANGELOG.md "$folder"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C $build -cf - "$name" |
  xz -T1 > "$out/$name.tar.xz"
(cd "$out" && sha256sum -- * > SHA256SUMS && cat SHA256SUMS)
newest=$(objdump -T "$folder/bin/bertie" "$folder"/lib/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
echo "$out: Debian packages, and $name.tar.xz for glibc ${newest#GLIBC_} or newer"
