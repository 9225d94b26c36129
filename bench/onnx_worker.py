# SPDX-License-Identifier: MIT
"""onnxruntime's side of bench/networks.py, as a worker of peers.py.

{"do": "prepare", "file", "folder", "inputs": {name: [dtype, shape]}} loads the model and runs it on NAME.bin of the folder;
{"do": "check"} compares its outputs with ours, which are in out0.bin and so on.
"""
import json
import os
import pathlib
import sys

import numpy as np
import onnxruntime

from repetitions import measure

BOUND = 1e-3  # of an error, relative to the element and to the root mean square of the output


class Session:
    def __init__(self, order):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = os.cpu_count() or 1
        self.session = onnxruntime.InferenceSession(order["file"], options, providers=["CPUExecutionProvider"])
        self.folder = pathlib.Path(order["folder"])
        self.inputs = {name: np.fromfile(self.folder / f"{name}.bin", dtype).reshape(shape) for name, (dtype, shape) in order["inputs"].items()}

    def __call__(self):
        return self.session.run(None, self.inputs)

    def check(self):
        """Returns for each output the share of elements that differ, and the largest error relative to the bound."""
        found = []
        for i, wanted in enumerate(self()):
            ours = np.fromfile(self.folder / f"out{i}.bin", wanted.dtype)
            if ours.size != wanted.size:
                found.append({"apart": 1.0, "worst": None, "why": f"{ours.size} elements; onnxruntime has {wanted.size}"})
                continue
            wanted = wanted.reshape(-1).astype(np.float64)
            error = np.abs(ours - wanted) / (BOUND * (np.abs(wanted) + np.sqrt(np.mean(wanted * wanted))) + 1e-30)
            found.append({"apart": 1 - np.count_nonzero(error <= 1) / error.size, "worst": float(error.max())})  # NaN is not <= 1
        return found


def main():
    session = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "prepare":
            session = Session(order)
            measure(session, order["seconds"])  # warm up
            answer = {"version": onnxruntime.__version__}
        elif order["do"] == "check":
            answer = {"results": session.check()}
        else:
            answer = {"times": measure(session, order["seconds"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
