# SPDX-License-Identifier: MIT
"""Training that goes on in the server, after its client has gone and after a restart."""
from __future__ import annotations

import time
from typing import Iterator

from .connection import Busy, read_events
from .values import read_safetensors

SAFETENSORS = "application/x-safetensors"
FINAL = ("done", "failed", "cancelled")
EVALUATE = "evaluate."  # before the names of what an evaluation takes and gives


class JobFailed(Exception):
    """A job that was waited for has failed, or was cancelled.  ``job``: the job, ``state`` and ``reason``: what it says."""

    def __init__(self, job, info) -> None:
        super().__init__(f"the job is {info['state']}: {info['reason']}" if info["reason"] else f"the job is {info['state']}")
        self.job, self.state, self.reason = job, info["state"], info["reason"]


class Job:
    """A job on the server, by its id: RemoteProgram.train begins one, Client.job finds one again."""

    def __init__(self, client, name) -> None:
        self.client, self.id = client, name

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def path(self, rest="") -> str:
        return self.client.path("jobs", self.id) + rest

    def info(self) -> dict:
        """How it stands: state, reason, step, steps, rate, seconds_left, checkpoints and so on.  NotFound if there is none."""
        return self.client.answer("GET", self.path(), repeat=True)

    def events(self, after=0) -> Iterator[dict]:
        """Its reports behind step |after| as they come, until it ends: {"step", "time", "metrics"} and, where there are such, "evaluation" and "rate".

        A connection that breaks is opened again behind the last report."""
        failures = 0
        while True:
            try:
                with self.client.connection.stream("GET", self.path("/events"), None, {"Accept": "text/event-stream", "Last-Event-ID": str(after)}) as reply:
                    for name, data in read_events(reply):
                        failures = 0
                        if name == "":
                            after = data["step"]
                            yield data
            except (*self.client.BROKEN, Busy):
                failures += 1
                if failures > self.client.retries:
                    raise
                time.sleep(self.client.pause(failures))
            if self.info()["state"] in FINAL:
                yield from self.rest(after)
                return

    def rest(self, after) -> Iterator[dict]:
        """Reports of a job that has ended, from its history."""
        columns, rows = self.history(after + 1)
        for row in rows:
            report = {"step": row[0], "time": row[1], "metrics": {}, "evaluation": {}}
            for name, value in zip(columns[2:], row[2:]):
                if value is not None:
                    report["evaluation" if name.startswith(EVALUATE) else "metrics"][name.removeprefix(EVALUATE)] = value
            yield {name: value for name, value in report.items() if value != {}}

    def document(self) -> dict:
        """What the job was asked to do, with dtype and shape of each input in place of its values."""
        return self.client.answer("GET", self.path("/document"), repeat=True)

    def history(self, start=0, limit=None, points=None) -> tuple[list, list]:
        """(columns, rows) of its reports from step |start| on, at most |limit| of them; None was not measured after that step.

        points: fewer rows that make the same curve, those with the least and the greatest values of so many stretches
        """
        path = self.history_path(start, limit) + (f"&points={points}" if points is not None else "")
        document = self.client.answer("GET", path, repeat=True)
        return document["columns"], document["rows"]

    def csv(self, start=0, limit=None) -> str:
        """The same as text, a line each below one of names."""
        return self.client.request("GET", self.history_path(start, limit) + "&format=csv", repeat=True)[1].decode()

    def history_path(self, start, limit) -> str:
        return self.path(f"/history?from={start}" + (f"&limit={limit}" if limit is not None else ""))

    def wait(self, seconds=None) -> dict:
        """Until it is done: its info.  JobFailed where it ends otherwise, TimeoutError after |seconds|."""
        until, pause = None if seconds is None else time.monotonic() + seconds, 0.02
        while (info := self.info())["state"] not in FINAL:
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"the job is at step {info['step']} of {info['steps']} after {seconds} s")
            time.sleep(pause)
            pause = min(1, pause * 1.5)
        if info["state"] != "done":
            raise JobFailed(self, info)
        return info

    def cancel(self) -> dict:
        """Stop it at its next step.  One that has ended stays as it is.  Gives its info."""
        return self.client.call("DELETE", self.path())

    def remove(self) -> None:
        """Forget it, history and checkpoints included.  Conflict while it has not ended."""
        self.client.request("DELETE", self.path("?remove=true"))

    def checkpoint(self, step="last") -> dict:
        """The state of the program as it was written down: tensors by name.  NotFound where there is none of that step."""
        _, data = self.client.request("GET", self.path(f"/checkpoints/{step}"), headers={"Accept": SAFETENSORS}, repeat=True)
        arrays, _ = read_safetensors(data, self.client.use_numpy)
        return arrays


def submit(program, inputs, document, evaluate) -> Job:
    """What RemoteProgram.train does."""
    client, tensors = program.client, {}
    document["program"] = program.name
    document["inputs"] = client.encode_all(inputs or {}, {}, tensors)
    if evaluate is not None:
        evaluate = dict(evaluate)
        named = {EVALUATE + name: value for name, value in evaluate.pop("inputs", {}).items()}
        values = client.encode_all(named, {}, tensors)
        evaluate["inputs"] = {name[len(EVALUATE):]: value for name, value in values.items()}
        if "program" in evaluate:
            evaluate["program"] = getattr(evaluate["program"], "name", evaluate["program"])
        document["evaluate"] = evaluate
    info, _ = client.send("POST", "/api/v1/jobs", client.leased(document), tensors, {"Accept": "application/json"})
    return Job(client, info["job"])
