"""The page: whole, escaped, and without a thought of the network."""

import json
import re
from copy import deepcopy
from html.parser import HTMLParser
from typing import Any

import pytest

from podberth.explain.report.pages import breakable, demo_page
from podberth.testing.demo.recording import page_data
from tests.unit.testing.demo.conftest import Told

EVIL = "</script><img src=x onerror=alert(1)>&\"'"


class Reader(HTMLParser):
    """Tags, and the JSON in the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._in_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = tag == "script" and ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data


def read(page: str) -> Reader:
    """Parse a page."""
    reader = Reader()
    reader.feed(page)
    return reader


@pytest.fixture
def data(told: Told) -> dict[str, Any]:
    """The story's data, for a test to change."""
    return deepcopy(page_data(told.recording))


def test_is_self_contained(data: dict[str, Any]) -> None:
    """Nothing is fetched: no sources, no links but into the page, no imports, and a policy that forbids it."""
    page = demo_page(data)
    for tag, attributes in read(page).tags:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith(("#", "data:"))
    assert not re.search(r"@import|url\(", page)
    assert "default-src 'none'" in page


def test_has_the_whole_story_as_text(data: dict[str, Any]) -> None:
    """Without a script there is still every step."""
    page = demo_page(data)
    for step in data["steps"]:
        assert f">{breakable(step['title'])}</button>" in page


def test_carries_the_data(data: dict[str, Any]) -> None:
    """The script finds what the recording has, in its order."""
    found = json.loads(read(demo_page(data)).data)
    assert found == json.loads(json.dumps(data))
    step = next(step for step in found["steps"] if step["pod"] == "web-1")
    assert list(step["verdict"]["weights"]) == list(step["verdict"]["candidates"][0]["scores"])


def test_escapes_hostile_text(data: dict[str, Any]) -> None:
    """Names and messages come from a cluster and stay text."""
    data["steps"][1]["title"] = data["steps"][1]["lines"][0] = data["acts"][0]["title"] = data["server"] = EVIL
    data["summary"].append((EVIL, EVIL, EVIL))
    reader = read(demo_page(data))
    assert not [tag for tag, _ in reader.tags if tag == "img"]
    assert json.loads(reader.data)["server"] == EVIL


def test_controls_have_names(data: dict[str, Any]) -> None:
    """Buttons without a word, and the slider, say what they do."""
    silent = [
        attributes
        for tag, attributes in read(demo_page(data)).tags
        if tag == "input" or (tag == "button" and attributes.get("id") in ("back", "play", "next"))
    ]
    assert len(silent) == 4
    assert all(attributes.get("aria-label") for attributes in silent)
