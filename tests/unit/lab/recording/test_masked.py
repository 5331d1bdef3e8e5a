"""Masks of a recording: what protocols say stays, and whatever somebody may have written goes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from podberth.lab.recording.entries import Entry, Head, PutObject, Told, encoder
from podberth.lab.recording.log import File, LogError
from podberth.lab.recording.masked import write_masked
from podberth.lab.recording.reading import parts
from tests.builders import node

LABELS = {"state": "failed", "tier": "kept", "for": "ResourceClaim", "team": "apollo"}
EXTENDER = "http://scores.acme.example:8888"
AFFINITY = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "team", "operator": "In", "values": ["apollo", "gemini"]}]}]
}
CONFIGURATION = {
    "extenders": [{"urlPrefix": EXTENDER, "filterVerb": "filter"}],
    "profiles": [
        {
            "schedulerName": "berth",
            "pluginConfig": [
                {
                    "name": "NodeAffinity",
                    "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": AFFINITY}},
                },
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ],
        }
    ],
}


def masked(tmp_path: Path, *told: Entry) -> tuple[Head, list[Any]]:
    """The head and what was told, read from the masked copy of a recording of a node that has such labels."""
    (tmp_path / "whole").mkdir()
    file = File(tmp_path / "whole" / "1.log")
    known = PutObject(1.0, True, False, "Node", "", "n0", "1", json.dumps(node("n0", labels=LABELS)))
    file.write(encoder.encode([Head(0.0, fresh=True, configuration=CONFIGURATION), known, *told]))
    file.close()
    write_masked(tmp_path / "whole", tmp_path / "masked")
    (part,) = parts(tmp_path / "masked")
    return part.head, [event.what for event in part.events() if isinstance(event, Told)]


@pytest.mark.parametrize(
    ("name", "what", "found"),
    [
        (
            "BindFailed",
            ["u", 403, 'webhook "audit.acme.example" denied it: apollo is frozen', False],
            ["u", 403, "a message that is masked", False],
        ),
        (
            "PreBindWritten",
            ["u", [[["ResourceClaim", "apollo", "n0"], "12"]]],
            ["u", [[["ResourceClaim", "MASK", "MASK"], "12"]]],
        ),
        (
            "PostFilterWriteFailed",
            ["u", [["ResourceClaim", "apollo", "n0"]]],
            ["u", [["ResourceClaim", "MASK", "MASK"]]],
        ),
        (
            "ExtendersAnswered",
            [
                "u",
                {
                    "kept": ["n0"],
                    "failed": {"n0": "apollo has no quota"},
                    "unresolvable": {},
                    "scores": [{"extender": EXTENDER, "weight": 2, "by_node": {"n0": 7}}],
                },
            ],
            [
                "u",
                {
                    "kept": ["MASK"],
                    "failed": {"MASK": "a message that is masked"},
                    "unresolvable": {},
                    "scores": [{"extender": "http://extender-that-is-masked", "weight": 2, "by_node": {"MASK": 7}}],
                },
            ],
        ),
        ("ExtendersAnswered", ["u", {"n0": [["v"], 1]}], ["u", {"MASK": [["v"], 1]}]),
        ("CallEnded", ["u", None], ["u", None]),
        ("CallEnded", ["u", {"host": "rack.acme.example"}], ["u", "a message that is masked"]),
        ("Leads", [4.0], [4.0]),
    ],
)
def test_what_was_told(tmp_path: Path, name: str, what: list[Any], found: list[Any]) -> None:
    """Fields and kinds have their names, though labels are called so, too; messages may hold any word."""
    _, told = masked(tmp_path, Told(2.0, name, what))
    assert json.loads(re.sub(r"\bmask\d+", "MASK", json.dumps(told))) == [found]


def test_configurations(tmp_path: Path) -> None:
    """No address of an extender; a profile's own affinity fits the masked labels of nodes; the rest stays."""
    head, told = masked(tmp_path, Told(2.0, "Configured", [CONFIGURATION]))
    assert told == [[head.configuration]]
    text = json.dumps(head.configuration)
    assert "acme" not in text
    assert "apollo" not in text
    assert "gemini" not in text
    assert '"type": "MostAllocated"' in text
    assert '"name": "NodeAffinity"' in text


def test_what_is_damaged(tmp_path: Path) -> None:
    """One line that names the file."""
    with pytest.raises(LogError, match=r"1\.log: is damaged"):
        masked(tmp_path, Told(2.0, "PreBindWritten", ["u", 5]))
