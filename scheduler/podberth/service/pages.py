"""Pages that every component has: /healthz, /livez and /readyz in the form of Kubernetes' components, and /statusz and
/flagz as kube-scheduler 1.37 gives them, as text for people or as an object in JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from podberth import __version__
from podberth.service.metrics import PYTHON, STARTED

KINDS = {"/statusz": "Statusz", "/flagz": "Flagz"}
"""The pages here, and the kinds of their objects."""
EMULATED = "1.37"
"""The release of Kubernetes whose scheduler we equal."""
GROUP, VERSION = "config.k8s.io", "v1beta1"
JSON = "application/json"
_HEADER = (
    "\n{} {}\nWarning: This endpoint is not meant to be machine parseable, "
    "has no formatting compatibility guarantees and is for debugging purposes only.\n"
)


Check = Callable[[], str | None]
"""Returns the reason for which a check fails, or None."""
Checks = Mapping[str, Check]


def health(path: str, checks: Checks, *, verbose: bool, notes: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Return (status, text): `ok`, or a line for each check when one fails or `verbose` asks for it.

    `notes` are lines of what does not work as it should and is no reason to fail.
    """
    name = path.strip("/")
    found = {"ping": None} | {check: ask() for check, ask in checks.items()}
    failed = [check for check, why in found.items() if why is not None]
    if not failed and not verbose:
        return 200, "ok"
    lines = [f"[+]{check} ok" if why is None else f"[-]{check} failed: {why}" for check, why in found.items()]
    lines += [f"[!]{what}: {said}" for what, said in (notes or {}).items()]
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return 503 if failed else 200, "\n".join(lines) + "\n"


class About(Struct, frozen=True):
    """A component that serves these pages: its name, and its options with their values."""

    name: str = "berth"
    flags: Mapping[str, str] = msgspec.field(default_factory=dict)


class Answer(Struct, frozen=True):
    """An answer to a request for a page."""

    body: bytes
    headers: dict[str, str]


def zpage(path: str, accept: str, about: About, paths: Iterable[str]) -> Answer:
    """Answer a request for one of `KINDS`: as text, or as JSON where the client accepts that. `paths`: what else can be
    read at the same port.
    """
    kind = KINDS[path]
    facts: dict[str, Any] = {"flags": dict(sorted(about.flags.items()))} if kind == "Flagz" else _status(paths)
    if JSON not in accept:
        text = _HEADER.format(about.name, path[1:]) + (_flags(facts) if kind == "Flagz" else _told(facts))
        return Answer(text.encode(), {"Content-Type": "text/plain; charset=utf-8"})
    made = {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {"name": about.name}, **facts}
    headers = {"Content-Type": f"{JSON};g={GROUP};v={VERSION};as={kind}"}
    return Answer(msgspec.json.encode(made) + b"\n", headers)


def _status(paths: Iterable[str]) -> dict[str, Any]:
    """Return the facts of /statusz. Of Go there is no version to tell."""
    return {
        "startTime": datetime.fromtimestamp(int(STARTED), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uptimeSeconds": max(0, int(time.time() - STARTED)),
        "goVersion": "",
        "binaryVersion": __version__,
        "emulationVersion": EMULATED,
        "paths": sorted(paths),
    }


def _told(facts: Mapping[str, Any]) -> str:
    up = facts["uptimeSeconds"]
    lines = {
        "Started": time.strftime("%a %b %e %H:%M:%S %Z %Y", time.localtime(STARTED)),
        "Up": f"{up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec",
        "Python version": PYTHON,
        "Binary version": facts["binaryVersion"],
        "Emulation version": facts["emulationVersion"],
        "Paths": " ".join(facts["paths"]),
    }
    return "\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())


def _flags(facts: Mapping[str, Any]) -> str:
    return "".join(f"{name}={value}\n" for name, value in facts["flags"].items())
