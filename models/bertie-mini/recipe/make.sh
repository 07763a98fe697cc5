#!/usr/bin/env bash
# From text to models/bertie-mini: vocabulary, shards, pre-training in two parts. Goes on where it was
# stopped.
#
#   make.sh CORPUS WORK
#
# CORPUS holds wiki.txt, news.txt and novels.txt (a paragraph a line, an empty line ends a document); into WORK go
# shards and runs. BERTIE is the program (default: build/bertie).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(dirname "$here")
bertie=${BERTIE:-$here/../../../build/bertie}
corpus=$1 work=$2
texts=("$corpus/wiki.txt" "$corpus/news.txt" "$corpus/novels.txt")
mkdir -p "$work"

[ -e "$work/vocab.txt" ] || "$bertie" vocab "${texts[@]}" --size 8192 --alphabet-limit 200 -o "$work/vocab.txt"
"$bertie" prepare "${texts[@]}" --vocab "$work/vocab.txt" --held-out 0.01 -o "$work/shards"

watch=()
while read -r text; do watch+=(--watch "$text"); done < "$here/watch.txt"
# part NAME options: one run with what all have in common
part() {
  "$bertie" pretrain -d "$work/shards" -o "$work/$1" --beta2 0.98 --eps 1e-12 --bf16 --dropout 0 --eval-every 500 \
    --save-every 5m --log-every 50 --resume "${watch[@]}" "${@:2}"
}
# Short sequences first; then most of it, and at the end the rate falls.
part short --config "$here/config.json" --initial nearby --steps "${SHORT_STEPS:-1743}" -b 64 --max-length 64 \
  --schedule constant --warmup 100 --rate 1e-3
part main --from "$work/short/last" --tokens "${MAIN_TOKENS:-23M}" -b 48 --max-length 128 \
  --schedule stable --cooldown 0.4 --warmup 0.02 --rate 1e-3 --mask-rate 0.2 --mask-rate-end 0.15
"$bertie" convert "$work/main/last" "$work/bertie-mini" --dtype bf16 --force
cp "$work"/bertie-mini/{config.json,model.safetensors,vocab.txt,tokenizer_config.json} "$out"
"$here/training.py" "$work"/{short,main}/log.jsonl > "$out/training.jsonl"
