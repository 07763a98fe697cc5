#!/usr/bin/env bash
# Debian packages and a tarball of this commit, into build-package/out; a second run should give the same bytes.
#
#   tools/package.sh
#
# The tarball's program is one file that needs nothing but glibc, as old as Debian 11's: the line at the end says which. For
# that, libraries that Debian has no static ones of are built from its sources, and glibc is fetched from Debian 11.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(cat VERSION)
build=build-package out=build-package/out
umask 022
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)
maps="-ffile-prefix-map=$PWD=."
tools/static_libraries.sh $build/static "highway fmtlib prometheus-cpp" -DCMAKE_CXX_FLAGS="$maps"
old=$PWD/$build/old-glibc
if [ ! -f "$old/libgcc_eh.a" ]; then
  echo "bertie: fetching glibc of Debian 11"
  rm -rf "$old" && mkdir -p "$old"
  (cd "$old" && ../../tools/apt.sh deb bullseye download libc6 libc6-dev libgcc-10-dev &&
   for package in *.deb; do dpkg -x "$package" .; done && rm -- *.deb
   # Links such as libm.so -> /lib/…/libm.so.6 are meant within the folder.
   find . -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link to; do
     ln -sfn "$(realpath -sm --relative-to="$(dirname "$link")" ".$to")" "$link"
   done
   cp usr/lib/gcc/*/10/libgcc_eh.a . && rm -r usr/lib/gcc) # that of GCC 12 asks for glibc 2.35
fi
cmake --preset package -DCMAKE_CXX_FLAGS="$maps" -DBERTIE_STATIC_LIBRARIES="$PWD/$build/static" \
  -DBERTIE_OLD_GLIBC="$old" > /dev/null
cmake --build $build -j "${JOBS:-$(nproc)}"
rm -rf "$out" && mkdir -p "$out"
(cd $build && cpack -B out > cpack.log) || { cat $build/cpack.log; exit 1; }
rm -rf "$out/_CPack_Packages"

cmake --build $build -j "${JOBS:-$(nproc)}" --target bertie_portable
name=bertie-$version-linux-$(uname -m)
folder=$build/$name
rm -rf "$folder" && mkdir -p "$folder"
DESTDIR=$PWD/$build/stage cmake --install $build --component program > /dev/null
cp -r $build/stage/usr/bin $build/stage/usr/share "$folder"
rm -rf "$folder/share/doc" $build/stage
strip -o "$folder/bin/bertie" $build/bertie_portable
cp LICENSE NOTICE README.md CHANGELOG.md "$folder"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C $build -cf - "$name" |
  xz -T1 > "$out/$name.tar.xz"
(cd "$out" && sha256sum -- * > SHA256SUMS && cat SHA256SUMS)
newest=$(objdump -T "$folder/bin/bertie" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
echo "$out: Debian packages, and $name.tar.xz for glibc ${newest#GLIBC_} or newer"
