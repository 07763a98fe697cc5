#!/bin/sh
# Fuzz every reader of strangers' files with libFuzzer, each for the given number of seconds. What was
# found stays in build-fuzz/, where the next run goes on.
set -eu
seconds=${1:-300}
cd "$(dirname "$0")/.."
mkdir -p build-fuzz
for source in fuzz/*_fuzz.cc; do
  name=$(basename "$source" .cc)
  echo "$name: building"
  clang++-14 -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Iinclude -Isrc -DBERTIE_VERSION='"fuzz"' \
    -o "build-fuzz/$name" "$source" src/text/*.cc src/text/*/*.cc src/io/*.cc src/core/*.cc -lfmt -lz -lpthread
  mkdir -p "build-fuzz/$name-corpus"
  echo "$name: $seconds s"
  (cd build-fuzz && "./$name" -max_total_time="$seconds" -max_len=8192 -print_final_stats=1 "$name-corpus" \
    2>"$name.log") || { tail -40 "build-fuzz/$name.log"; exit 1; }
  grep -E 'stat::number_of_executed_units|DONE' "build-fuzz/$name.log" | sed "s/^/$name: /"
done
