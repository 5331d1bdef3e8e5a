"""Pages that every component has: /healthz, /livez and /readyz in the form of Kubernetes' components, and /statusz and
/flagz in the forms that kube-scheduler 1.37 gives them, text for people or a versioned object."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
GROUP = "config.k8s.io"
VERSIONS = {"v1beta1": False, "v1alpha1": True}
"""Version of the objects → it is deprecated."""
JSON, YAML, TEXT = "application/json", "application/yaml", "text/plain"
_FORMS = (JSON, YAML, TEXT)
"""The forms in the order in which a wildcard finds them."""
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

    status: int
    body: bytes
    headers: dict[str, str]


def zpage(path: str, accept: str, about: About, paths: Iterable[str]) -> Answer:
    """Answer a request for one of `KINDS`. `paths`: what else can be read at the same port."""
    kind = KINDS[path]
    form, version = _negotiated(accept, kind) or ("", "")
    if not form:
        wanted = f"only the following media types are accepted: {', '.join(_FORMS)}"
        refusal: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": wanted,
        }
        refusal |= {"reason": "NotAcceptable", "code": 406}
        return Answer(406, msgspec.json.encode(refusal), {"Content-Type": JSON})
    facts: dict[str, Any] = {"flags": dict(sorted(about.flags.items()))} if kind == "Flagz" else _status(paths)
    if form == TEXT:
        text = _HEADER.format(about.name, path[1:]) + (_flags(facts) if kind == "Flagz" else _told(facts))
        return Answer(200, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})
    made = {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": about.name}, **facts}
    headers = {"Content-Type": f"{form};g={GROUP};v={version};as={kind}"}
    if VERSIONS[version]:
        page = path[1:]
        headers["Warning"] = f'299 - "This version of the {page} endpoint is deprecated. Please use a newer version."'
    return Answer(200, msgspec.yaml.encode(made) if form == YAML else msgspec.json.encode(made) + b"\n", headers)


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


def _negotiated(accept: str, kind: str) -> tuple[str, str] | None:
    """Return the form to answer in, and the version of an object, by an Accept header; None: it takes nothing that we
    have.
    """
    if not accept.strip():
        return TEXT, ""
    for wanted, parameters in _clauses(accept):
        target = parameters.keys() & {"g", "v", "as"}
        version = parameters.get("v", "")
        ours = parameters.get("g") == GROUP and parameters.get("as") == kind and version in VERSIONS
        if parameters.get("stream") or parameters.get("sv"):
            continue
        for form in _FORMS:
            if wanted in (form, form.partition("/")[0] + "/*", "*/*") and (not target if form == TEXT else ours):
                return form, version
    return None


def _clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Return the media types of an Accept header with their parameters, the most wanted first."""
    found = []
    for clause in accept.split(","):
        wanted, *rest = (part.strip() for part in clause.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip(): value.strip() for name, _, value in pairs if value}
        kind, _, part = ("*/*" if wanted == "*" else wanted).partition("/")
        found.append((-_quality(parameters.pop("q", "1")), kind == "*", part == "*", f"{kind}/{part}", parameters))
    return ((wanted, parameters) for *_, wanted, parameters in sorted(found, key=lambda one: one[:3]))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
