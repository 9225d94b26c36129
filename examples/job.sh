#!/bin/sh
# SPDX-License-Identifier: MIT
# Train a small network as a job, with nothing but curl: it goes on without this script, and after a restart of the server.
#
#   examples/job.sh [--url URL]        the server (default: $BEAMLINE_URL, else http://127.0.0.1:8470)
#
# Environment: STEPS (20000), DEVICE (the server's first).  The network learns exclusive or.
set -eu
url=${BEAMLINE_URL:-http://127.0.0.1:8470}
case ${1:-} in
--url) url=${2:?--url needs an address} ;;
--help | -h) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
?*) echo "job.sh: unknown option '$1'; --help shows the options" >&2 && exit 2 ;;
esac
api=$url/api/v1
steps=${STEPS:-20000}
say() { curl -sSf -H 'content-type: application/json' "$@"; }

say -X PUT "$api/programs/xor" -o /dev/null -d '{
  '"${DEVICE:+\"device\": \"$DEVICE\",}"'
  "state": {"w": {"op": "normal", "attrs": {"shape": [2, 8], "seed": 1}}, "b": {"dtype": "float32", "shape": [8]},
            "v": {"op": "normal", "attrs": {"shape": [8, 1], "seed": 2}}, "c": {"dtype": "float32", "shape": [1]}},
  "entries": {
    "train": {
      "inputs": {"x": {"dtype": "float32", "shape": [4, 2]}, "t": {"dtype": "float32", "shape": [4, 1]}},
      "nodes": [{"id": "xw", "op": "matmul", "in": ["x", "w"]}, {"id": "h", "op": "add", "in": ["xw", "b"]}, {"id": "a", "op": "tanh", "in": ["h"]},
                {"id": "av", "op": "matmul", "in": ["a", "v"]}, {"id": "y", "op": "add", "in": ["av", "c"]},
                {"id": "e", "op": "sub", "in": ["y", "t"]}, {"id": "q", "op": "mul", "in": ["e", "e"]}, {"id": "loss", "op": "mean", "in": ["q"]},
                {"id": ["w1", "b1", "v1", "c1"], "op": "adam", "in": ["loss", "w", "b", "v", "c"], "attrs": {"lr": 0.001}}],
      "updates": {"w": "w1", "b": "b1", "v": "v1", "c": "c1"}, "outputs": ["loss"]}}}'

# A second program, which the job runs on what it is training: states of one name are the same ones.
say -X PUT "$api/programs/xor_test" -o /dev/null -d '{
  '"${DEVICE:+\"device\": \"$DEVICE\",}"'
  "inputs": {"x": {"dtype": "float32", "shape": [4, 2]}},
  "state": {"w": {"dtype": "float32", "shape": [2, 8]}, "b": {"dtype": "float32", "shape": [8]},
            "v": {"dtype": "float32", "shape": [8, 1]}, "c": {"dtype": "float32", "shape": [1]}},
  "nodes": [{"id": "xw", "op": "matmul", "in": ["x", "w"]}, {"id": "h", "op": "add", "in": ["xw", "b"]}, {"id": "a", "op": "tanh", "in": ["h"]},
            {"id": "av", "op": "matmul", "in": ["a", "v"]}, {"id": "y", "op": "add", "in": ["av", "c"]}], "outputs": ["y"]}'

job=$(say "$api/jobs" -d '{
  "program": "xor", "entry": "train", "steps": '"$steps"',
  "inputs": {"x": [[0, 0], [0, 1], [1, 0], [1, 1]], "t": [[0], [1], [1], [0]]},
  "collect": {"every": '"$((steps / 10))"', "outputs": ["loss"]},
  "evaluate": {"program": "xor_test", "inputs": {"x": [[0, 0], [0, 1], [1, 0], [1, 1]]}, "every": '"$((steps / 2))"', "outputs": ["y"]},
  "early_stop": {"metric": "loss", "patience": 3}}' | sed 's/.*"job":"\([0-9a-f]*\)".*/\1/')

echo "job $job: its events, until it ends"
curl -sSfN "$api/jobs/$job/events"
echo "its history, as CSV"
curl -sSf "$api/jobs/$job/history?format=csv"
