#!/bin/sh
# SPDX-License-Identifier: MIT
# Two people on one server: keys, a tensor that one shares with the other, what a run would cost, and who used what.
#   examples/keys.sh [PROGRAM]        starts a server of its own; needs curl and jq
set -eu
case ${1:-} in --help | -h) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
program=${1:-$(dirname "$0")/../build/beamline}
state=$(mktemp -d)
trap 'kill "$server" 2>/dev/null && wait "$server" || true; rm -rf "$state"' EXIT

alice=$("$program" keys create alice --scopes run,train --memory 1G --state "$state")
bob=$("$program" keys create bob --scopes run --rate 5 --ttl 1d --state "$state")
: >"$state/line"
"$program" serve --port 0 --state "$state" --log-level error >"$state/line" &
server=$!
until grep -q listening "$state/line"; do sleep 0.1; done
url=http://127.0.0.1:$(sed 's/.*://' "$state/line")/api/v1

ask() { # KEY PATH [curl's words]
    key=$1 path=$2
    shift 2
    curl -s "$url$path" -H "authorization: Bearer $key" -H 'content-type: application/json' "$@"
}

echo "without a key: $(curl -s "$url/tensors" | jq -c '[.status, .detail]')"
ask "$alice" /tensors/w -X PUT -d '[1, 2, 3]' >"$state/out"
echo "bob asks for alice's w: $(ask "$bob" /tensors/w | jq -c '[.status, .detail]')"
ask "$alice" /shares -d '{"tensor": "w", "to": "bob"}' >"$state/out"
graph='"inputs": {"x": {"tensor": "alice:w"}}, "nodes": [{"id": "y", "op": "mul", "in": ["x", 10]}], "outputs": ["y"]'
echo "once it is shared, what would it cost: $(ask "$bob" /run -d "{$graph, \"dry_run\": true}" | jq -c '{ops, bytes, memory_bytes, kernels}')"
echo "and what is it: $(ask "$bob" /run -d "{$graph}" | jq -c .outputs.y.data)"
echo "bob may not change it: $(ask "$bob" /tensors/alice:w -X DELETE | jq -c '[.status, .detail]')"
for _ in $(seq 25); do ask "$bob" /tensors -o "$state/last" -w '%{http_code} '; done | tr ' ' '\n' | sort | uniq -c | awk 'NF == 2 {print "bob in a hurry: " $1 " times " $2}'
sleep 1.2 # what was used is written down once a second
"$program" usage --state "$state"
