#!/bin/sh
# SPDX-License-Identifier: MIT
# Train a small convolutional network on MNIST with nothing but curl and jq: the network of mnist_cnn.py.
#
#   examples/mnist_cnn.sh [--url URL]  the server (default: $BEAMLINE_URL, else http://127.0.0.1:8470)
#
# Environment: STEPS (1000), DEVICE (the server's first), BEAMLINE_DATA (a folder with MNIST's four files).
set -eu
url=${BEAMLINE_URL:-http://127.0.0.1:8470}
case ${1:-} in
--url) url=${2:?--url needs an address} ;;
--help | -h) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
?*) echo "mnist_cnn.sh: unknown option '$1'; --help shows the options" >&2 && exit 2 ;;
esac
api=$url/api/v1
steps=${STEPS:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- the data: found where mnist_data.py finds it, or downloaded; told by the SHA-256 of what is inside

sha_of() {
    case $1 in
    train-images*) echo ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db ;;
    train-labels*) echo 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 ;;
    t10k-images*) echo 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 ;;
    t10k-labels*) echo ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 ;;
    esac
}

unpack() { # FILE.gz NAME: $work/NAME, if it is what it should be
    gzip -dc "$1" >"$work/$2" 2>/dev/null && [ "$(sha256sum <"$work/$2" | cut -d' ' -f1)" = "$(sha_of "$2")" ]
}

fetch() { # NAME
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamline/data/mnist
    for folder in ${BEAMLINE_DATA:+"$BEAMLINE_DATA/mnist" "$BEAMLINE_DATA"} "$cache"; do
        if [ -f "$folder/$1.gz" ] && unpack "$folder/$1.gz" "$1"; then return; fi
    done
    for mirror in https://ossci-datasets.s3.amazonaws.com/mnist https://storage.googleapis.com/cvdf-datasets/mnist; do
        if curl -sfL --max-time 120 "$mirror/$1.gz" -o "$work/$1.gz" && unpack "$work/$1.gz" "$1"; then return; fi
    done
    echo "$1 was not found and could not be downloaded: $mirror/$1.gz belongs into a folder that BEAMLINE_DATA names" >&2
    exit 1
}

# ---- talking to the server: any failure shows the server's own words

call() { # METHOD PATH [curl's arguments]
    method=$1 path=$2
    shift 2
    status=$(curl -sS -X "$method" "$api/$path" -o "$work/reply" -w '%{http_code}' "$@")
    if [ "$status" -ge 400 ]; then
        echo "$method $path: $(jq -r '.detail // .' "$work/reply")" >&2
        exit 1
    fi
    cat "$work/reply"
}

keep() { # TENSOR FILE BYTES_OF_HEADER SHAPE
    fetch "$2"
    tail -c "+$(($3 + 1))" "$work/$2" >"$work/data"
    call PUT "tensors/$1?dtype=uint8&shape=$4${DEVICE:+&device=$DEVICE}" \
        -H 'content-type: application/octet-stream' --data-binary "@$work/data" >"$work/kept"
    echo "$1 [$4]"
}

keep mnist.train.images train-images-idx3-ubyte 16 60000,28,28
keep mnist.train.labels train-labels-idx1-ubyte 8 60000
keep mnist.test.images t10k-images-idx3-ubyte 16 10000,28,28
keep mnist.test.labels t10k-labels-idx1-ubyte 8 10000

# ---- the program: state, and an entry that trains and one that tests 1,000 images

cat >"$work/program.json" <<'JSON'
{
  "state": {
    "step": {"dtype": "int64", "shape": []},
    "conv1.weight": {"op": "scaled_uniform", "attrs": {"shape": [32, 1, 3, 3], "fan_in": 9, "seed": 1}},
    "conv1.bias": {"op": "scaled_uniform", "attrs": {"shape": [32], "fan_in": 9, "seed": 2}},
    "conv2.weight": {"op": "scaled_uniform", "attrs": {"shape": [64, 32, 3, 3], "fan_in": 288, "seed": 3}},
    "conv2.bias": {"op": "scaled_uniform", "attrs": {"shape": [64], "fan_in": 288, "seed": 4}},
    "fc.weight": {"op": "scaled_uniform", "attrs": {"shape": [10, 1600], "fan_in": 1600, "seed": 5}},
    "fc.bias": {"op": "scaled_uniform", "attrs": {"shape": [10], "fan_in": 1600, "seed": 6}}
  },
  "entries": {
    "train": {
      "inputs": {
        "images": {"dtype": "uint8", "shape": [60000, 28, 28]},
        "labels": {"dtype": "uint8", "shape": [60000]}
      },
      "nodes": [
        {"id": "seen", "op": "mul", "in": ["step", 64]},
        {"id": "epoch", "op": "floor_div", "in": ["seen", 60000]},
        {"id": "odd", "op": "mod", "in": ["epoch", 2]},
        {"id": "next", "op": "add", "in": ["epoch", 1]},
        {"id": "even_epoch", "op": "add", "in": ["epoch", "odd"]},
        {"id": "odd_epoch", "op": "sub", "in": ["next", "odd"]},
        {"id": "even_order", "op": "randperm", "in": ["even_epoch"], "attrs": {"n": 60000}},
        {"id": "odd_order", "op": "randperm", "in": ["odd_epoch"], "attrs": {"n": 60000}},
        {"id": "count", "op": "arange", "in": [], "attrs": {"stop": 64}},
        {"id": "place", "op": "add", "in": ["seen", "count"]},
        {"id": "turn", "op": "floor_div", "in": ["place", 60000]},
        {"id": "turn_odd", "op": "mod", "in": ["turn", 2]},
        {"id": "is_even", "op": "equal", "in": ["turn_odd", 0]},
        {"id": "within", "op": "mod", "in": ["place", 60000]},
        {"id": "from_even", "op": "take", "in": ["even_order", "within"]},
        {"id": "from_odd", "op": "take", "in": ["odd_order", "within"]},
        {"id": "chosen", "op": "where", "in": ["is_even", "from_even", "from_odd"]},
        {"id": "batch", "op": "contiguous", "in": ["chosen"]},
        {"id": "bytes", "op": "take", "in": ["images", "batch"]},
        {"id": "floats", "op": "cast", "in": ["bytes"], "attrs": {"dtype": "float32"}},
        {"id": "planes", "op": "unsqueeze", "in": ["floats"], "attrs": {"axis": 1}},
        {"id": "x", "op": "div", "in": ["planes", 255]},
        {"id": "y", "op": "take", "in": ["labels", "batch"]},
        {"id": "c1", "op": "conv2d", "in": ["x", "conv1.weight", "conv1.bias"]},
        {"id": "r1", "op": "relu", "in": ["c1"]},
        {"id": "p1", "op": "max_pool2d", "in": ["r1"], "attrs": {"kernel_size": 2}},
        {"id": "c2", "op": "conv2d", "in": ["p1", "conv2.weight", "conv2.bias"]},
        {"id": "r2", "op": "relu", "in": ["c2"]},
        {"id": "p2", "op": "max_pool2d", "in": ["r2"], "attrs": {"kernel_size": 2}},
        {"id": "flat", "op": "flatten", "in": ["p2"], "attrs": {"start_axis": 1}},
        {"id": "dropped", "op": "dropout", "in": ["flat"], "attrs": {"p": 0.5}},
        {"id": "logits", "op": "linear", "in": ["dropped", "fc.weight", "fc.bias"]},
        {"id": "loss", "op": "cross_entropy", "in": ["logits", "y"]},
        {"id": ["adam", "new.b1", "new.w2", "new.b2", "new.w3", "new.b3"], "op": "adam",
         "in": ["loss", "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc.weight", "fc.bias"], "attrs": {"lr": 0.002}},
        {"id": "next_step", "op": "add", "in": ["step", 1]}
      ],
      "updates": {
        "step": "next_step", "conv1.weight": "adam", "conv1.bias": "new.b1", "conv2.weight": "new.w2", "conv2.bias": "new.b2",
        "fc.weight": "new.w3", "fc.bias": "new.b3"
      },
      "outputs": ["loss"]
    },
    "test": {
      "inputs": {
        "images": {"dtype": "uint8", "shape": [10000, 28, 28]},
        "labels": {"dtype": "uint8", "shape": [10000]},
        "offset": {"dtype": "int64", "shape": []}
      },
      "nodes": [
        {"id": "count", "op": "arange", "in": [], "attrs": {"stop": 1000}},
        {"id": "batch", "op": "add", "in": ["offset", "count"]},
        {"id": "bytes", "op": "take", "in": ["images", "batch"]},
        {"id": "floats", "op": "cast", "in": ["bytes"], "attrs": {"dtype": "float32"}},
        {"id": "planes", "op": "unsqueeze", "in": ["floats"], "attrs": {"axis": 1}},
        {"id": "x", "op": "div", "in": ["planes", 255]},
        {"id": "y", "op": "take", "in": ["labels", "batch"]},
        {"id": "c1", "op": "conv2d", "in": ["x", "conv1.weight", "conv1.bias"]},
        {"id": "r1", "op": "relu", "in": ["c1"]},
        {"id": "p1", "op": "max_pool2d", "in": ["r1"], "attrs": {"kernel_size": 2}},
        {"id": "c2", "op": "conv2d", "in": ["p1", "conv2.weight", "conv2.bias"]},
        {"id": "r2", "op": "relu", "in": ["c2"]},
        {"id": "p2", "op": "max_pool2d", "in": ["r2"], "attrs": {"kernel_size": 2}},
        {"id": "flat", "op": "flatten", "in": ["p2"], "attrs": {"start_axis": 1}},
        {"id": "logits", "op": "linear", "in": ["flat", "fc.weight", "fc.bias"]},
        {"id": "guess", "op": "argmax", "in": ["logits"], "attrs": {"axis": 1}},
        {"id": "right", "op": "equal", "in": ["guess", "y"]},
        {"id": "correct", "op": "sum", "in": ["right"]}
      ],
      "outputs": ["correct"]
    }
  }
}
JSON
jq ". + {seed: 0 ${DEVICE:+, device: \"$DEVICE\"}}" "$work/program.json" >"$work/full.json"
call PUT programs/mnist.sh -H 'content-type: application/json' --data-binary "@$work/full.json" >"$work/put"

# ---- train: one request runs up to 100 steps, each of which draws its own batch

begin=$(date +%s)
done_steps=0
while [ "$done_steps" -lt "$steps" ]; do
    many=$((steps - done_steps < 100 ? steps - done_steps : 100))
    loss=$(call POST programs/mnist.sh/run -H 'content-type: application/json' -d '{
        "entry": "train", "steps": '"$many"', "collect": {"every": '"$((many < 10 ? many : 10))"', "outputs": ["loss"]},
        "inputs": {"images": {"tensor": "mnist.train.images"}, "labels": {"tensor": "mnist.train.labels"}}}' |
        jq '.collected.loss.data | add / length * 10000 | round / 10000')
    done_steps=$((done_steps + many))
    echo "step $done_steps of $steps  loss $loss  $(($(date +%s) - begin)) s"
done

# ---- test: all 10,000 images, 1,000 a request

right=0
for offset in 0 1000 2000 3000 4000 5000 6000 7000 8000 9000; do
    correct=$(call POST programs/mnist.sh/run -H 'content-type: application/json' -d '{
        "entry": "test", "inputs": {"offset": '"$offset"',
        "images": {"tensor": "mnist.test.images"}, "labels": {"tensor": "mnist.test.labels"}}}' |
        jq '[.outputs.correct.data] | flatten | add')
    right=$((right + correct))
done
printf 'test accuracy %d.%02d%%\n' $((right / 100)) $((right % 100))
