#!/usr/bin/env bash
# From text to bertie-mini: vocabulary, shards, pre-training in four parts. Goes on where it was stopped.
#
#   make.sh CORPUS WORK
#
# CORPUS holds wiki.txt, news.txt and novels.txt (a paragraph a line, an empty line ends a document); into WORK go
# shards and runs, and in the end the model, WORK/mini. BERTIE is the program (default: build/bertie).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bertie=${BERTIE:-$here/../../../build/bertie}
corpus=$1 work=$2
texts=("$corpus/wiki.txt" "$corpus/news.txt" "$corpus/novels.txt")
mkdir -p "$work"

[ -e "$work/vocab.txt" ] || "$bertie" vocab "${texts[@]}" --size 8192 --alphabet-limit 200 -o "$work/vocab.txt"
[ -e "$work/shards/shards.json" ] ||
  "$bertie" prepare "${texts[@]}" --vocab "$work/vocab.txt" --held-out 0.01 -o "$work/shards"

watch=()
while read -r text; do watch+=(--watch "$text"); done < "$here/watch.txt"
# part NAME options: one run with what all have in common
part() {
  "$bertie" pretrain -d "$work/shards" -o "$work/$1" --beta2 0.98 --eps 1e-12 --bf16 --dropout 0 --save-every 5m \
    --resume "${watch[@]}" "${@:2}"
}
# Short sequences first; then whole ones, and at the end the rate falls. Two more parts were added later, each from the
# weights of the one before (rounded to bf16), with an optimizer that the first two did not have yet, and with random
# second sentences from nearby documents; each again to a rate of 0.
part short --config "$here/config.json" --initial nearby --steps "${SHORT_STEPS:-1743}" -b 64 --max-length 64 \
  --schedule constant --warmup 100 --rate 1e-3 --eval-every 500
part main --from "$work/short/last" --tokens "${MAIN_TOKENS:-23M}" -b 48 --max-length 128 --eval-every 500 \
  --schedule stable --cooldown 0.4 --warmup 0.02 --rate 1e-3 --mask-rate 0.2 --mask-rate-end 0.15
part more --from "$work/main/last" --tokens "${MORE_TOKENS:-28.4M}" -b 96 --max-length 128 --eval-every 250 \
  --optimizer muon --schedule stable --cooldown 0.45 --warmup 0.01 --rate 1.5e-3 \
  --mask-rate 0.25 --mask-rate-end 0.15 --random-within 2000
part long --from "$work/more/last" --tokens "${LONG_TOKENS:-94.2M}" -b 96 --max-length 128 --eval-every 500 \
  --optimizer muon --schedule stable --cooldown 0.5 --warmup 0.01 --rate 1.5e-3 \
  --mask-rate 0.25 --mask-rate-end 0.15 --random-within 2000
"$bertie" convert "$work/long/last" "$work/mini" --dtype bf16 --force
"$here/training.py" "$work"/{short,main,more,long}/log.jsonl > "$work/mini/training.jsonl"
# TREEBANK: a file of Universal Dependencies (en_ewt-ud-dev.conllu), by which heads are judged.
[ -z "${TREEBANK:-}" ] ||
  "$bertie" heads -m "$work/mini" --data "$TREEBANK" --ablate 3000 --json > "$work/mini/heads.json"
echo "$work/mini: config.json, model.safetensors, vocab.txt, tokenizer_config.json, training.jsonl and heads.json are models/bertie-mini's"
