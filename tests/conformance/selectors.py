"""Selectors and devices, what Kubernetes' compiler said of them, and how our answers are compared with it.

`cel/expressions.txt` has an expression a line, `cel/devices.json` devices as in ResourceSlices. `cel/answers.jsonl.gz`
has what `python -m tests.differential.selectors --record` wrote: {"compile"}, or for each device the answers that were
given. There may be several, since Go goes over a map in any order.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from podberth.cel import program as programs
from podberth.cel.errors import EffortError, EvaluationError
from podberth.cel.library.quantities import Quantity, Version

HERE = Path(__file__).parent / "cel"
EXPRESSIONS = [line for line in (HERE / "expressions.txt").read_text().splitlines() if not line.startswith("#")]
DEVICES: list[dict[str, Any]] = json.loads((HERE / "devices.json").read_text())
ANSWERS = HERE / "answers.jsonl.gz"
LIMIT = "operation cancelled: actual cost limit exceeded"
HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)
"""What Kubernetes adds to an error for a key that is not there; here the caller does."""
_UNCHECKED = (
    *("expected type", "found no matching overload", "must evaluate to bool", "does not support field selection"),
    *("cannot be range of a comprehension", "unexpected failed resolution", "error parsing regexp"),
)
"""What Kubernetes' compiler refuses, and ours need not: types that don't fit, and patterns that RE2 alone takes."""
_OWN_WORDS = (
    *("error parsing regexp", "parse error during conversion from string", "could not be converted to bool"),
    *("invalid qualifier type", "unsupported comprehension range type"),
)
"""From these on, an error at run time is in words of RE2 or of our own: Go's names its own types there."""

Answer = dict[str, Any]


def recorded() -> list[Answer]:
    """The answers, in the order of the expressions."""
    with gzip.open(ANSWERS, "rt") as lines:
        return [json.loads(line) for line in lines]


def view(given: dict[str, Any]) -> programs.DeviceView:
    """A device of a ResourceSlice as expressions see it."""
    device = given["device"]
    attributes: dict[str, str | bool | int | Version] = {}
    for name, union in device.get("attributes", {}).items():
        ((kind, value),) = union.items()
        attributes[name] = Version.parse(value) if kind == "version" else value
    capacity = {name: Quantity.parse(one["value"]) for name, one in device.get("capacity", {}).items()}
    return programs.DeviceView(given["driver"], attributes, capacity, device.get("allowMultipleAllocations"))


def ours(program: programs.Program, device: programs.DeviceView) -> Answer:
    """Our answer in the form of the recorded ones."""
    try:
        evaluation = program.evaluate(device)
    except EffortError:
        return {"matches": False, "error": LIMIT}
    except EvaluationError as error:
        text = str(error)
        return {"matches": False, "error": text + HINT if "no such key:" in text else text}
    return {"matches": evaluation.matches}


def differences(expression: str, devices: list[programs.DeviceView], want: Answer) -> list[str]:
    """What is not as it should be, as lines. An expression on which the real compiler panics is not judged."""
    if "panic" in want:
        return []
    program = programs.compile(expression)
    expected = want.get("compile")
    if expected is not None:
        fine = program.error is not None or any(words in expected for words in _UNCHECKED)
        return [] if fine else [f"{expression}\n  compiled, not {expected}"]
    if program.error is not None:
        return [f"{expression}\n  {program.error}"]
    for number, (device, answers) in enumerate(zip(asked(expression, devices), want["answers"], strict=True)):
        answer = ours(program, device)
        if not agrees(answer, answers):
            return [f"{expression}\n  device {number}: {answer}, not {answers}"]
    return []


def agrees(answer: Answer, wanted: list[Answer]) -> bool:
    """Whether the answer is one that was given.

    Kubernetes' costs are not counted here, so what is over its limit is not judged. Nor is that on which it panics.
    """
    errors = [str(one.get("error")) for one in wanted]
    if LIMIT in errors or any(error.startswith("internal error") for error in errors):
        return True
    return _said(answer) in map(_said, wanted)


def _said(answer: Answer) -> tuple[bool, str | None]:
    error = answer.get("error")
    for words in _OWN_WORDS:
        if error is not None and words in error:
            error = error.partition(words)[0] + words
    if error is not None and error.endswith("expected iterable type"):
        error = "expected iterable type"
    return answer["matches"], error


def asked(expression: str, devices: list[Any]) -> list[Any]:
    """The devices for which the expression is evaluated: one is enough where it doesn't look at it."""
    return devices if "device" in expression else devices[:1]
