#!/usr/bin/env bash
# The models below bertie-mini: what it was fine-tuned for, as small changes of its weights (head.py).
#
#   heads.sh TASKS CORPUS MODELS WORK
#
# TASKS holds glue/SST-2 and conll2003 (as GLUE and CoNLL-2003 have them), CORPUS wiki.txt and news.txt, MODELS
# bert-base-cased (Google's, from the hub). Runs that are done are not done again.
#
# sentiment learns from SST-2's labels. entities learns nothing from CoNLL-2003's text, whose licence is for research: a
# bert-base-cased that was fine-tuned on it names the entities of Wikinews and Wikipedia, and bertie-mini learns from
# that. CoNLL-2003's dev rows say which of its epochs was the best.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mini=$(dirname "$here")
bertie=${BERTIE:-$here/../../../build/bertie} python=${PYTHON:-python3} threads=${THREADS:-0}
tasks=$1 corpus=$2 models=$3 work=$4
mkdir -p "$work"
# once FOLDER command: where the command that writes FOLDER has not ended yet; one that was stopped goes on
once() {
  local resume=()
  [ -e "$1/run" ] && resume=(--resume)
  [ -e "$1/metrics.json" ] || "${@:2}" -o "$1" -t "$threads" "${resume[@]}"
}

for part in train dev; do
  awk -F'\t' 'NR > 1 { $0 = $1 FS ($2 == 1 ? "positive" : "negative") } { print }' OFS='\t' \
    "$tasks/glue/SST-2/$part.tsv" > "$work/sst2-$part.tsv"
done
once "$work/sentiment" "$bertie" finetune classify -m "$mini" --train "$work/sst2-train.tsv" --dev "$work/sst2-dev.tsv" \
  --epochs 3 --batch 64 --rate 3e-4 --bf16
"$python" "$here/head.py" "$work/sentiment" "$mini" "$mini/sentiment"

# The teacher names some 600,000 tokens: in 8-bit integers that takes a third of the time.
once "$work/teacher" "$bertie" finetune tag -m "$models/bert-base-cased" --train "$tasks/conll2003/eng.train" \
  --dev "$tasks/conll2003/eng.testa" --epochs 1 --freeze 4 --bf16
[ -e "$work/teacher8" ] || "$bertie" quantize "$work/teacher" "$work/teacher8"
[ -e "$work/words.txt" ] ||
  "$python" "$here/words.py" "$corpus/news.txt" 12000 "$corpus/wiki.txt" 8000 > "$work/words.txt"
once "$work/entities" "$bertie" distill tag --teacher "$work/teacher8" -m "$mini" --unlabeled "$work/words.txt" \
  --dev "$tasks/conll2003/eng.testa" --epochs 6 --batch 32 --rate 5e-4 --bf16
"$python" "$here/head.py" "$work/entities" "$mini" "$mini/entities"
