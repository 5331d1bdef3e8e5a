"""The page: self-contained, escaped, and complete."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace

from podberth.explain.explanation import SideEffects
from podberth.explain.report import report_of
from podberth.explain.report.pages import breakable, page
from tests.builders import node, pod
from tests.unit.explain.story import BIG, DB, WEB, explained

VOID = {"meta", "link", "br", "wbr"}


class Checked(HTMLParser):
    """Collects what a page loads and whether its tags are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Remember an open tag and what it would load."""
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href") and value]
        if tag == "script":
            self.loads.append("script")

    def handle_endtag(self, tag: str) -> None:
        """A tag ends that was the last to open."""
        assert self.open.pop() == tag


@pytest.mark.parametrize("incoming", [BIG, DB, WEB, pod("g", gates=["a"]), pod("none", need=["@name in n;@name in m"])])
def test_is_balanced_and_loads_nothing(incoming: Any) -> None:
    """It opens without a network, and runs no script."""
    checked = Checked()
    checked.feed(page(report_of(explained(incoming))))
    checked.close()
    assert not checked.open
    assert checked.loads == ["data:,"]


def test_escapes() -> None:
    """Names from a dump stay names."""
    answer = explained(pod("<script>alert(1)</script>", "8"), [node("<b>n</b>", "1"), node('"m"', "1")])
    text = page(report_of(answer))
    assert "<script" not in text
    assert "<b>n" not in text
    assert "&lt;b&gt;n&lt;/b&gt;" in text


def test_breakable() -> None:
    """Names may break where a browser would not break them by itself; negative numbers may not. Text is escaped."""
    assert breakable("shop/web-7-x of <b>-1</b>") == "shop/web-<wbr>7-x of &lt;b&gt;-1&lt;/b&gt;"
    assert breakable("--4 -4 a- 4") == "--4 -4 a- 4"
    assert breakable("gpu=here:NoSchedule, pods: 3") == "gpu=<wbr>here:<wbr>NoSchedule, pods: 3"


def test_tells_all() -> None:
    """Headline, numbers, remedies and the message are on it."""
    answer = explained(BIG)
    text = re.sub(r"&#39;", "'", page(report_of(answer)))
    assert answer.message is not None
    for words in ("shop/big fits on none of 5 nodes", "needs 2500m cpu, 1 free of 4", "uncordon b-1", answer.message):
        assert words in text


def test_what_else_a_change_does_has_a_line_of_its_own() -> None:
    """It does not run into the name of the node."""
    answer = explained(BIG)
    first = replace(answer.remedies[0], effects=SideEffects(lands=["shop/x"], landed=1, moved={}, loses=[]))
    text = page(report_of(replace(answer, remedies=[first])))
    assert '<br><span class="also">shop/x would get a node too</span>' in text


def test_styles_of_the_terminal_are_classes() -> None:
    """The plugin that rejects stands out, and so does the best node; what columns mean does not."""
    text = page(report_of(explained(BIG)))
    assert re.search(r'<td class="[^"]*"><span class="no">[A-Za-z]+</span></td>', text)
    text = page(report_of(explained(WEB)))
    assert '<span class="best">' in text
    assert '<span class="quiet">points after weighting' in text


def test_dark_and_light() -> None:
    """It follows the reader's system."""
    assert "prefers-color-scheme: dark" in page(report_of(explained(WEB)))


def test_thousands_of_nodes_stay_readable() -> None:
    """The closest are in sight, some more behind a fold, and the rest is counted."""
    text = page(report_of(explained(pod("p", "8"), [node(f"n{i:04}", "1") for i in range(1200)])))
    assert "<summary>475 more</summary>" in text
    assert "and 700 more" in text
    assert len(text) < 200_000
