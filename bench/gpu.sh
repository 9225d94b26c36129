#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks this machine's GPU for correctness, then measures rates beside PyTorch.  Needs a driver, Python 3.9, and to compare PyTorch with CUDA; no network.
#   ./gpu.sh OUT [PART...]     parts: check kernels training text (default: all); at most 8 minutes each; OUT/PART.json holds the rows
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ -f "$here/bench/gpu.py" ] || here=$(dirname "$here")
case ${1:-} in
"" | -h | --help) sed -n '3,4s/^# //p' "$0" && exit 2 ;;
esac
out=$1
shift
status=0
for part in ${*:-check kernels training text}; do
    # A driver that hangs ends only its own part.
    timeout --kill-after=10 540 python3 "$here/bench/gpu.py" "$out" "$part" || { status=$?; echo "part $part ended with status $status" >&2; }
done
exit $status
