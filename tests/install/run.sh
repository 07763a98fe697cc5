#!/bin/sh
# Installs the built tree into an empty prefix, then builds and runs a small outside project against it:
# once with find_package(bertie), once with pkg-config.
#   tests/install/run.sh BUILD_DIRECTORY C++_COMPILER
set -eu
build=$1
cxx=$2
here=$(cd "$(dirname "$0")" && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
prefix=$temp/prefix

cmake --install "$build" --prefix "$prefix" > "$temp/install.log" || { cat "$temp/install.log"; exit 1; }

echo "find_package(bertie)"
cmake -S "$here/outside" -B "$temp/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
      -DCMAKE_PREFIX_PATH="$prefix" > "$temp/cmake.log" 2>&1 || { cat "$temp/cmake.log"; exit 1; }
cmake --build "$temp/build" > "$temp/build.log" 2>&1 || { cat "$temp/build.log"; exit 1; }
"$temp/build/outside"

echo "pkg-config"
pc=$(find "$prefix" -name bertie.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(dirname "$PKG_CONFIG_PATH")
pkg-config --exists --print-errors bertie
# shellcheck disable=SC2046 # flags are words
"$cxx" "$here/outside/main.cc" -o "$temp/with_pkg_config" $(pkg-config --cflags --libs bertie) ${BERTIE_EXTRA_FLAGS:-}
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$temp/with_pkg_config"

# The module for MPI, where it was built, is where the program looks for it.
if [ -e "$build/bertie_mpi.so" ] && [ ! -e "$libdir/bertie/bertie_mpi.so" ]; then
  echo "bertie_mpi.so was not installed"
  exit 1
fi

# The versions agree, and nothing of the source tree is left in what was installed.
version=$(cat "$here/../../VERSION")
[ "$(pkg-config --modversion bertie)" = "$version" ] || { echo "bertie.pc does not say $version"; exit 1; }
if grep -rl "$(cd "$here/../.." && pwd)" "$prefix/include" "$libdir/cmake" "$libdir/pkgconfig"; then
  echo "the files above name the source tree"
  exit 1
fi
echo "all well"
