"""The demo as one page: self-contained, no network, a picture of the cluster with a timeline to scrub through.

The template is `templates/demo.html`, which takes in demo.css and demo.js. All text is escaped by jinja2 on its
way into the page, and set as text by the script.
"""

from collections.abc import Mapping
from typing import Any

from podberth.explain.report.rendering import render


def demo_page(data: Mapping[str, Any]) -> str:
    """The page of a recording: `podberth.testing.demo.recording.page_data` makes the data."""
    return render("demo.html", data=data)
