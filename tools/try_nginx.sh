#!/usr/bin/env bash
# Two servers behind nginx (docs/examples/nginx.conf); under load each is stopped and started again, once in order and
# once by kill -9. Counts what clients lost. Then a text is sent over TLS.
#     tools/try_nginx.sh MODEL TEXTS [SECONDS]
set -euo pipefail
model=$1 texts=$2 seconds=${3:-20}
root=$(cd "$(dirname "$0")/.." && pwd)
bertie=${BERTIE:-$root/build/bertie} load=$root/build/bertie_serve_load
command -v nginx > /dev/null || "$root/tools/install_packages.sh" nginx-light
cmake --build "$root/build" --target bertie_serve_load > /dev/null
work=$(mktemp -d)
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/bertie.key" -out "$work/bertie.pem" -days 2 -subj /CN=localhost 2> /dev/null
sed "s/listen 8080/listen 127.0.0.1:8180/; s/# listen 443/listen 127.0.0.1:8143/; s/# ssl/ssl/; s#/etc/ssl#$work#; s/8081/8181/
     s/8082/8182/" "$root/docs/examples/nginx.conf" > "$work/nginx.conf"
start() { "$bertie" serve "m=$model" --port "$1" -q & echo $! > "$work/$1"; }
up() { until curl -sf "127.0.0.1:$1/ready" > /dev/null; do sleep 0.02; done; }
trap 'kill $(cat "$work"/818?) 2> /dev/null; nginx -p "$work" -c nginx.conf -e "$work/error" -g "pid $work/pid;" -s stop 2> /dev/null; rm -rf "$work"' EXIT
start 8181; start 8182; up 8181; up 8182
nginx -p "$work" -c nginx.conf -e "$work/error" -g "pid $work/pid;"
up 8180
"$load" load --port 8180 --texts "$texts" --clients 32 --seconds "$seconds" --check 8 &
client=$!
sleep 3
for port in 8181 8182; do
  echo "$port is stopped in order" >&2
  kill -TERM "$(cat "$work/$port")"; wait "$(cat "$work/$port")" || true
  start $port; up $port; sleep 3
done
echo "8181 is killed" >&2
kill -KILL "$(cat "$work/8181")"; sleep 1; start 8181; up 8181
wait $client
curl -sf --cacert "$work/bertie.pem" --resolve localhost:8143:127.0.0.1 https://localhost:8143/embed -d '{"inputs": "over TLS"}' > /dev/null
echo "answered over TLS" >&2
