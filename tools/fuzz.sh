#!/bin/sh
# Fuzz every reader of strangers' files with libFuzzer: tools/fuzz.sh [SECONDS each] [NAME...], a NAME being a
# fuzz/NAME_fuzz.cc; without one, all. What was found stays in build-fuzz/NAME_fuzz-corpus, where the next run goes
# on. A line per fuzzer says how far it came; that one accepts none of its files is a failure, as a crash is.
set -eu
seconds=${1:-300}
[ $# -eq 0 ] || shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(ls fuzz/*_fuzz.cc | sed 's|.*/||; s|_fuzz\.cc$||')
jobs=${JOBS:-$(nproc)}
mkdir -p build-fuzz
cmake --preset fuzz >build-fuzz/configure.log 2>&1 || { cat build-fuzz/configure.log; exit 1; }
targets=""
for name in "$@"; do targets="$targets ${name}_fuzz ${name}_accepted"; done
# shellcheck disable=SC2086
cmake --build build-fuzz -j "$jobs" --target $targets >build-fuzz/build.log 2>&1 || { tail -40 build-fuzz/build.log; exit 1; }
python3 tools/fuzz_seeds.py build-fuzz

# Files as long as the seeds need; longer ones are slower and find no more.
longest() {
  case $1 in
    config | npy | shard | dataset | conllu) echo 4096 ;;
    sentence_piece | onnx) echo 65536 ;;
    *) echo 16384 ;;
  esac
}

cd build-fuzz
status=0
for name in "$@"; do
  fuzzer=${name}_fuzz
  mkdir -p "$fuzzer-corpus"
  # What is written goes to the first folder. Slow inputs count as crashes after 20 s, memory after 2 GB.
  if ! "./$fuzzer" -max_total_time="$seconds" -max_len="$(longest "$name")" -dict="$fuzzer.dict" -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 "$fuzzer-corpus" "$fuzzer-seeds" >"$fuzzer.log" 2>&1; then
    tail -40 "$fuzzer.log"
    status=1
    continue
  fi
  runs=$(LC_ALL=C sed -n 's/^stat::number_of_executed_units: *//p' "$fuzzer.log")
  reached=$(grep -ao 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$fuzzer.log" | tail -1)
  accepted=$("./${name}_accepted" "$fuzzer-corpus" "$fuzzer-seeds")
  echo "$name: $runs runs, $reached; accepted: found and seeds $accepted"
  case "$accepted" in 0\ * ) echo "$name: nothing that was found is accepted by the reader"; status=1 ;; esac
done
exit $status
