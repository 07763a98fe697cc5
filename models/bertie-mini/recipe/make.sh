#!/usr/bin/env bash
# From text to models/bertie-mini: vocabulary, shards, pre-training, and the head for sentiment. Goes on where it was
# stopped.
#
#   make.sh CORPUS TASKS WORK
#
# CORPUS holds wiki.txt, news.txt and novels.txt (a paragraph a line, an empty line ends a document); TASKS holds
# glue/SST-2; into WORK go shards and runs. BERTIE is the program (default: build/bertie).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(dirname "$here")
bertie=${BERTIE:-$here/../../../build/bertie}
corpus=$1 tasks=$2 work=$3
# Tokens of the first part, at a rate that stays, and of the end, in which it falls to 0.
main=${MAIN_TOKENS:-240M} end=${END_TOKENS:-30M}
texts=("$corpus/wiki.txt" "$corpus/news.txt" "$corpus/novels.txt")
mkdir -p "$work"

[ -e "$work/vocab.txt" ] || "$bertie" vocab "${texts[@]}" --size 8192 --alphabet-limit 200 -o "$work/vocab.txt"
"$bertie" prepare "${texts[@]}" --vocab "$work/vocab.txt" --held-out 0.01 -o "$work/shards"

common=(-d "$work/shards" --bf16 --dropout 0 --eval-every 1000 --save-every 5m --resume)
"$bertie" pretrain "${common[@]}" --config "$here/config.json" -o "$work/main" --tokens "$main" \
  --schedule constant --warmup 0.02 --rate 1e-3 -b 64 --max-length 128 --mask-rate 0.3
"$bertie" pretrain "${common[@]}" --from "$work/main/last" -o "$work/end" --tokens "$end" \
  --schedule linear --warmup 0.01 --rate 1e-3 -b 32 --max-length 256 --mask-rate 0.3 --mask-rate-end 0.15
"$bertie" convert "$work/end/last" "$work/bertie-mini" --dtype bf16 --force
cp "$work"/bertie-mini/{config.json,model.safetensors,vocab.txt,tokenizer_config.json} "$out"

# A head: the last two layers learn, and the head itself; the rest is bertie-mini's.
head() {  # name, kind, options of finetune
  [ -e "$work/$1/model.safetensors" ] || "$bertie" finetune "$2" -m "$work/bertie-mini" -o "$work/$1" --freeze 4 "${@:3}"
  "$bertie" convert "$work/$1" "$work/$1-bf16" --dtype bf16 --force
  "$here/head.py" "$work/$1-bf16" "$work/bertie-mini" "$out/$1"
}
head sentiment classify --train "$tasks/glue/SST-2/train.tsv" --dev "$tasks/glue/SST-2/dev.tsv"
