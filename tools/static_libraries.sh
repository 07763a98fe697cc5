#!/usr/bin/env bash
# Builds libraries that Debian has only as shared ones, or only for libstdc++, from Debian's own sources: static ones,
# into FOLDER/lib and FOLDER/include. Done once; remove FOLDER to do it again.
#
#   tools/static_libraries.sh FOLDER "SOURCE..." [CMAKE OPTION...]
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd) sources=$2 tools=$(cd "$(dirname "$0")" && pwd)
shift 2
[ "$(cat "$folder/ready" 2> /dev/null)" = "$sources $*" ] && exit 0
echo "bertie: building static $sources"
rm -rf "$folder" && mkdir -p "$folder/source"
cd "$folder/source"
# shellcheck disable=SC2086
"$tools/apt.sh" deb-src "$(. /etc/os-release && echo "$VERSION_CODENAME")" source $sources
off="BUILD_SHARED_LIBS BUILD_TESTING HWY_ENABLE_TESTS HWY_ENABLE_EXAMPLES HWY_ENABLE_CONTRIB FMT_TEST FMT_DOC
  ENABLE_PUSH ENABLE_PULL ENABLE_TESTING ENABLE_COMPRESSION"
for source in */; do
  { cmake -G Ninja -S "$source" -B "../build/$source" -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
      -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib $(printf -- '-D%s=OFF ' $off) "$@" &&
    cmake --build "../build/$source" -j "${JOBS:-$(nproc)}" && cmake --install "../build/$source"; } > "$folder/log" 2>&1 ||
    { tail -20 "$folder/log" >&2; exit 1; }
done
rm -rf "$folder/source" "$folder/build"
echo "$sources $*" > "$folder/ready"
