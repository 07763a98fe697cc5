#!/bin/sh
# The page in a real browser: every view draws, hostile text stays text, and a file of `bertie attend --html` opens
# from disk. Usage: run.sh BERTIE MODELS_FOLDER. Exit code 77: no Chromium is here, so nothing was looked at.
set -eu
bertie=$1 models=$2
browser=
for name in chromium chromium-browser google-chrome; do
  if command -v $name > /dev/null; then browser=$name; break; fi
done
if [ -z "$browser" ]; then echo "skipped: no Chromium is installed"; exit 77; fi

scratch=$(mktemp -d)
trap 'kill $server 2> /dev/null || true; rm -rf "$scratch"' EXIT
"$bertie" view -m "$models/fill-mask-bert" --run "$models/../run" --no-open > "$scratch/link" 2> "$scratch/said" &
server=$!
for i in $(seq 100); do [ -s "$scratch/link" ] && break; sleep 0.1; done
base=$(head -1 "$scratch/link" | sed 's/#.*//')
[ -n "$base" ] || { echo "bertie view printed no link:"; cat "$scratch/said"; exit 1; }

# The page's elements when it has come to rest.
look() {
  $browser --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --disable-dev-shm-usage --user-data-dir="$scratch/profile" \
    --virtual-time-budget=8000 --dump-dom "$1" 2> "$scratch/browser.log" > "$scratch/dom"
}
has() {
  grep -qF -- "$1" "$scratch/dom" || { echo "$2: the page does not have: $1"; head -c 3000 "$scratch/dom"; exit 1; }
}
has_not() {
  if grep -qF -- "$1" "$scratch/dom"; then echo "$2: the page has: $1"; exit 1; fi
}

look "$base#text=Paris+is+the+%5BMASK%5D+of+France.&layer=2&head=2"
has 'data-ready="fill-mask-bert 2 2 ' attention
has 'data-drawn="4"' "the atlas of 2 x 2 heads"
has '[MASK] is' "the prediction"

# A token that is markup, in the text and in the address.
look "$base#text=%3Cimg+src%3Dx+onerror%3D%22document.title%3D%27taken%27%22%3E+%3Cscript%3Ealert(1)%3C%2Fscript%3E"
has 'data-ready="fill-mask-bert' "hostile text"
has_not '<img' "hostile text"
has_not 'taken</title>' "hostile text"

look "$base#view=explain&step=6&cell=1.2"
has 'data-step="weights"' explain
has 'row’s sum is' explain
look "$base#view=mechanisms&text=You+found+me&layer=1&head=1&length=256"
has 'data-mechanisms="7"' mechanisms
look "$base#view=try&task=fill-mask&input=A+%5BMASK%5D+film."
has 'data-tried="fill-mask"' try
look "$base#view=try&task=entities"
has 'No model here can do this' "a task that no model does"

look "$base#view=training&run=run"
has 'data-training="run 2"' training
has 'after step 50' "what masks were filled with"
has '&lt;b&gt;london&lt;/b&gt;' "a token that is markup"

look "$base#view=heads&layer=2&head=1"
has 'data-heads="fill-mask-bert relation &lt;b&gt;nsubj 2-1"' "what heads look at"
has '&lt;b&gt;nsubj: head' "a relation that is markup"

"$bertie" attend -q -m "$models/fill-mask-bert" --html "$scratch/seen.html" '<img src=x onerror=alert(1)> </script>'
kill $server
look "file://$scratch/seen.html"
has 'data-ready="fill-mask-bert 2 1 ' "a page from disk"
has '&lt;img src=x onerror=alert(1)&gt;' "a page from disk"
has_not '<img' "a page from disk"
"$bertie" heads -q -m "$models/fill-mask-bert" --html "$scratch/heads.html" "Anna came." "Anna saw a film."
look "file://$scratch/heads.html"
has 'data-heads="fill-mask-bert sep 2-2"' "heads in a file"
echo "every view draws"
