#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kill servers during training jobs and uploads, and check that jobs end with unchanged results and that no data is torn.

    tests/kills.py [--kills N] [--seed S] [--backend interp|opencl|vulkan] [--steps N] [--only jobs|uploads]

First an undisturbed job is trained: dropout, AdamW, reports, evaluations by an entry or by another program, checkpoints.  Then
the same job is submitted to servers that are killed (SIGKILL) at random times and restarted on the same folder, until N servers
were killed.  Each job must end with the same bytes of state and the same reports, whatever was partly written at the kill.

Meanwhile N other servers are killed during uploads of blobs and durable tensors.  Acknowledged data must exist and be complete;
unacknowledged data must be complete or missing; and an interrupted upload resumes at the position that the server reports.
"""

import argparse
import hashlib
import http.client
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "http"))
from fixture import Server, read_safetensors  # noqa: E402
from training_jobs import J, judge, noisy, noisy_inputs, wait  # noqa: E402

P = "/api/v1/programs"


def submit(server, steps, judged):
    for name, document in (("net", noisy()), ("judge", judge())):
        answer = server.call("PUT", f"{P}/{name}", document)
        if answer.status not in (200, 201):
            raise AssertionError(answer.body)
    inputs = noisy_inputs()
    answer = server.call("POST", J, {"program": "net", "entry": "train", "inputs": inputs, "steps": steps, "collect": {"every": 10, "outputs": ["loss"]},
                                     "checkpoint": {"every": max(1, steps // 50), "keep": 2},
                                     "evaluate": {**({"program": "judge"} if judged else {}), "entry": "test", "inputs": inputs, "every": 40,
                                                  "outputs": ["loss"]}})
    if answer.status != 202:
        raise AssertionError(answer.body)
    return answer.json["job"]


def outcome(server, job):
    """Returns state and reports of a finished job."""
    done = wait(server, job, ("done", "failed", "cancelled"), 120)
    if done["state"] != "done":
        raise AssertionError(f"job {job} is {done['state']}: {done['reason']}\n{server.log_text()[-3000:]}")
    tensors, _ = read_safetensors(server.call("GET", f"{J}/{job}/checkpoints/last").body)
    rows = server.call("GET", f"{J}/{job}/history").json["rows"]
    return tensors, [[row[0], *row[2:]] for row in rows]


def check_files(folder):
    """Checks that every checkpoint under its final name is complete, at any time."""
    for path in pathlib.Path(folder, "jobs").glob("*/*.safetensors"):
        tensors, metadata = read_safetensors(path.read_bytes())
        for name, (_, shape, data) in tensors.items():
            count = 1
            for extent in shape:
                count *= extent
            if len(data) not in (count, 2 * count, 4 * count, 8 * count):
                raise AssertionError(f"{path}: {name} is torn")
        if not {"request", "moves", "program"} & set(metadata):
            raise AssertionError(f"{path} does not say what it is")


def start(folder, backend):
    return Server("--backends", backend, "--tune=off", env={"BEAMLINE_STATE": folder})


def run(kills, seed, backend, steps, tell=print):
    """Returns (kills, jobs, restarts of the jobs)."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        server = start(folder, backend)
        begin = time.monotonic()
        wanted = [outcome(server, submit(server, steps, judged)) for judged in (False, True)]
        whole = (time.monotonic() - begin) / 2
        server.stop()
    folder, killed, jobs, restarts, job = tempfile.mkdtemp(), 0, 0, 0, None
    server = start(folder, backend)
    try:
        while killed < kills:
            if job is None:
                job = submit(server, steps, jobs % 2)
            time.sleep(draw.uniform(0, whole / 2))
            if server.call("GET", f"{J}/{job}").json["state"] in ("queued", "running"):
                server.process.kill()
                server.stop()
                killed += 1
                check_files(folder)
                server = start(folder, backend)
                tell(f"kill {killed}, {jobs} jobs done", flush=True)
                continue
            if outcome(server, job) != wanted[jobs % 2]:
                raise AssertionError(f"job {job} ended otherwise than the undisturbed one: seed {seed}, {killed} kills")
            jobs += 1
            restarts += server.call("GET", f"{J}/{job}").json["restarts"]
            job = None
        if job is not None:
            if outcome(server, job) != wanted[jobs % 2]:
                raise AssertionError(f"job {job} ended otherwise than the undisturbed one: seed {seed}, {killed} kills")
            jobs += 1
            restarts += server.call("GET", f"{J}/{job}").json["restarts"]
        if server.stop() != 0:
            raise AssertionError(server.log_text()[-3000:])
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.stop()
        shutil.rmtree(folder)
    return killed, jobs, restarts


# ---- uploads

OCTETS = {"content-type": "application/octet-stream"}
BLOB_BYTES = 3_000_000


def blob_path(data):
    return "/api/v1/blobs/sha256:" + hashlib.sha256(data).hexdigest()


def send(server, data, piece):
    """Continues the upload of a blob until it is complete, a piece at a time; returns early if the server dies."""
    while True:
        answer = server.call("PUT", blob_path(data), b"", {"content-range": f"bytes */{len(data)}"})
        if answer.status == 201:
            return
        first = answer.json["received"]
        last = min(first + piece, len(data)) - 1
        answer = server.call("PUT", blob_path(data), data[first:last + 1], {**OCTETS, "content-range": f"bytes {first}-{last}/{len(data)}"})
        if answer.status == 201:
            return
        if answer.status != 202:
            raise AssertionError(f"{answer.status}: {answer.body}")


def send_all(server, data, piece, tensors, answered):
    """Uploads the blob and tensors under new names; |answered| receives the acknowledged data."""
    try:
        for name, bytes_ in tensors.items():
            if server.call("PUT", f"/api/v1/tensors/{name}?dtype=uint8&shape={len(bytes_)}&durable=true", bytes_, OCTETS).status == 201:
                answered.add(name)
        send(server, data, piece)
        answered.add("blob")
    except (OSError, http.client.HTTPException):
        pass  # the server was killed


def check_uploads(server, data, tensors, answered):
    there = server.call("HEAD", blob_path(data)).status == 200
    if "blob" in answered and not there:
        raise AssertionError("a blob that was answered is gone")
    if there and server.call("GET", blob_path(data)).body != data:
        raise AssertionError("a blob is torn")
    held = {tensor["name"] for tensor in server.call("GET", "/api/v1/tensors").json["tensors"]}
    if not answered - {"blob"} <= held:
        raise AssertionError(f"durable tensors that were answered are gone: {answered - held}")
    for name in held & set(tensors):
        if server.call("GET", f"/api/v1/tensors/{name}", headers={"accept": "application/octet-stream"}).body != tensors[name]:
            raise AssertionError(f"the tensor {name} is torn")


def run_uploads(kills, seed, tell=print):
    """Returns (kills, uploaded blobs, number of interrupted uploads among them)."""
    draw = random.Random(seed)
    folder, blobs, broken, data, fresh = tempfile.mkdtemp(), 0, 0, None, True
    server = start(folder, "interp")
    try:
        for killed in range(kills):
            if data is None:
                data, fresh = draw.randbytes(draw.randint(1, BLOB_BYTES)), True
            tensors, answered = {f"t{killed}.{i}": draw.randbytes(draw.randint(1, 200_000)) for i in range(3)}, set()
            thread = threading.Thread(target=send_all, args=(server, data, draw.choice((10_000, 100_000, BLOB_BYTES)), tensors, answered))
            thread.start()
            time.sleep(draw.uniform(0, 0.15))
            server.process.kill()
            thread.join()
            server.stop()
            server = start(folder, "interp")
            check_uploads(server, data, tensors, answered)
            for name in tensors:
                server.call("DELETE", f"/api/v1/tensors/{name}")
            if not fresh or draw.random() < 0.5:
                broken += "blob" not in answered
                send(server, data, BLOB_BYTES)
                check_uploads(server, data, {}, {"blob"})
                server.call("DELETE", blob_path(data))
                blobs += 1
                data = None
            fresh = False
            tell(f"kill {killed + 1}, {blobs} blobs", flush=True)
        if server.stop() != 0:
            raise AssertionError(server.log_text()[-3000:])
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.stop()
        shutil.rmtree(folder)
    return kills, blobs, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="interp")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--only", choices=("jobs", "uploads"))
    given = parser.parse_args()
    if given.only != "jobs":
        killed, blobs, broken = run_uploads(given.kills, given.seed)
        print(f"{killed} kills, {blobs} blobs came whole, {broken} of them after they had broken off")
    if given.only == "uploads":
        return
    killed, jobs, restarts = run(given.kills, given.seed, given.backend, given.steps)
    print(f"{killed} kills, {jobs} jobs, all of them ended with the bytes of the undisturbed one; they were taken up {restarts} times")


if __name__ == "__main__":
    main()
