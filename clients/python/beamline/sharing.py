# SPDX-License-Identifier: MIT
"""Keys, what they share, and what they used: the part of a Client for a server that several people have."""
from __future__ import annotations

import urllib.parse
from typing import Any

KINDS = ("tensor", "program", "model", "job")


def one_thing(things) -> dict:
    """{kind: name} of the one thing that was given, by name or as a handle."""
    given = {kind: getattr(value, "id" if kind == "job" else "name", value) for kind, value in things.items() if value is not None}
    if len(given) != 1:
        raise ValueError(f"one of {', '.join(KINDS)} is shared at a time, not {' and '.join(given) or 'nothing'}")
    return given


def key_document(scopes, ttl, quotas) -> dict:
    """The members of a key that are given.  None means that there shall be none; ``...`` that it was not given."""
    document: dict[str, Any] = {} if scopes is None else {"scopes": [scopes] if isinstance(scopes, str) else list(scopes)}
    document.update({} if ttl is ... else {"ttl": ttl}, **({"quotas": quotas} if quotas else {}))
    return document


class Sharing:
    """Calls of a Client; those about keys, ``top`` and ``kernels`` need the scope admin."""

    call: Any
    path: Any

    # ---- what others may read

    def shares(self) -> dict:
        """{"given", "taken"}: what this key shares, and what is shared with it.  Each a list of {"tensor" or "program", "model",
        "job": name}, and what is given has "to"; what is taken has the name by which this key may use it, KEY:NAME."""
        return self.call("GET", "/api/v1/shares")

    def share(self, to, *, tensor=None, program=None, model=None, job=None) -> None:
        """Let the key named |to|, or every one ("*"), read one thing of this key: by its name, or a handle (Held, RemoteProgram, Model, Job).

        There it is KEY:NAME, as in ``client.get("alice:w")``.  NotFound where there is no such thing.  A share for a name
        that no key has holds for the key that gets the name.
        """
        self.call("POST", "/api/v1/shares", {**one_thing({"tensor": tensor, "program": program, "model": model, "job": job}), "to": to})

    def unshare(self, to, *, tensor=None, program=None, model=None, job=None) -> None:
        """Take that back.  NotFound where it was not shared so."""
        query = {**one_thing({"tensor": tensor, "program": program, "model": model, "job": job}), "to": to}
        self.call("DELETE", "/api/v1/shares?" + urllib.parse.urlencode(query))

    # ---- keys

    def keys(self) -> list:
        """The keys: dicts with name, hint, scopes, created, quotas and, where there are such, expires and revoked."""
        return self.call("GET", "/api/v1/keys")["keys"]

    def create_key(self, name, scopes, ttl=None, **quotas) -> str:
        """Make a key and give its secret, which the server tells this once.

        scopes: of "infer", "run", "train", "admin" and "metrics"; the first key of a server needs "admin"
        ttl: seconds for which it is good       quotas: device_seconds (a day), memory and disk (bytes), queue (requests), rate (a second)
        Conflict where there is one of that name.
        """
        return self.call("POST", "/api/v1/keys", {"name": name, **key_document(scopes, ttl, quotas)})["key"]

    def change_key(self, name, scopes=None, ttl=..., **quotas) -> dict:
        """Change what is given of a key, from now on; None takes its expiry or a quota away.  Gives the key as ``keys`` does."""
        return self.call("PUT", self.path("keys", name), key_document(scopes, ttl, quotas))

    def rotate_key(self, name) -> str:
        """A new secret in place of the old one, also of a key that was revoked."""
        return self.call("POST", self.path("keys", name) + "/rotate")["key"]

    def revoke_key(self, name, purge=False) -> None:
        """From now on it is good for nothing.  purge: what it holds goes too, and its jobs are cancelled."""
        self.call("DELETE", self.path("keys", name, **({"purge": "true"} if purge else {})))

    # ---- who uses what

    def usage(self, days=None) -> list:
        """What this key has used, or for the scope admin every key: dicts with key, day (UTC), requests, device_seconds, received_bytes, sent_bytes.

        days: so many up to today; 1 is today
        """
        return self.call("GET", "/api/v1/usage" + (f"?days={days}" if days is not None else ""))["usage"]

    def me(self) -> dict:
        """{"name", "keys", "scopes", "expires", "quotas", "used"} of this key; where the server has no keys, name is None."""
        return self.call("GET", "/api/v1/me")

    def now(self) -> dict:
        """{"time", "uptime", "devices", "models", "jobs"}: how busy each device is, what waits there, with whose work, and when it is free."""
        return self.call("GET", "/api/v1/now")

    def now_history(self, seconds=None) -> dict:
        """{"interval", "until", "devices"}: samples of each device and of its busiest keys, the oldest first.

        seconds: the last so many, by default 600; over 600 the samples are of minutes
        """
        return self.call("GET", "/api/v1/now/history" + (f"?seconds={seconds}" if seconds is not None else ""))

    def timeline(self, seconds=None) -> dict:
        """{"traceEvents"}: what devices and compilers did in the last seconds (10), in the format that Perfetto opens."""
        return self.call("GET", "/api/v1/trace" + (f"?seconds={seconds}" if seconds is not None else ""))

    def kernel(self, key) -> list:
        """What searches found for the loop nest of that key, a dict with its nest for each device."""
        return self.call("GET", self.path("kernels", key))["kernels"]

    def kernels(self) -> dict:
        """{"kernels", "service", "history"}: what searches found, plans in service with what their kernels take, and what was swapped."""
        return self.call("GET", "/api/v1/kernels")
