"""Hooks of mkdocs: they add pages from outside docs/ and of the Python API, and mend links that leave docs/.

The pages in docs/ are written for GitHub, where each link is a path from its file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/podberth/berth"
PLACES = {
    ROOT / "README.md": "index.md",
    DOCS / "README.md": "pages.md",
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    DOCS / "decisions" / "README.md": "decisions/index.md",
}
"""Files that have another place in the site than in the repository."""
API = {
    "api/kit.md": "podberth.kit",
    "api/changes.md": "podberth.explain.changes",
    "api/testing.md": "podberth.kit.testing",
    "api/lab.md": "podberth.lab",
}
"""Pages that are made from docstrings."""
LATER = ("decisions/", "evidence/", "changelog")
"""Pages that a search shows after the others."""
STYLE = "site.css"
SHIPPED = (".json", ".md", ".svg")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s#]*)((?:#[^)\s]*)?)(?=\))")
BRACKETS = re.compile(r"(?<!!)\[([^][\n`]*)\](?!\()")
SOURCES = {place: path for path, place in PLACES.items()}
NAV = [
    {"Home": ["index.md", "pages.md"]},
    {"Ask": ["answers.md", "beside.md", "lab.md", "replay.md"]},
    {
        "Run": [
            "install.md",
            "operations.md",
            "configuration.md",
            "security.md",
            "benchmarks.md",
            "faults.md",
            "equal.md",
        ]
    },
    {"Schedule": ["gangs.md", "devices.md", "policy.md", "operator.md", "evictor.md"]},
    {"Extend": ["plugins.md", *API]},
    {"Reference": ["reference/*.md"]},
    {"Inside": ["architecture.md", "contributing.md", "roadmap.md", "changelog.md", {"Decisions": ["decisions/*.md"]}]},
    {"Evidence": ["evidence/*.md"]},
]
"""The order of pages; a pattern stands for all that match. A page that is nowhere is an error of the build."""


def on_config(config: Any) -> Any:
    """Say which pages there are, in which order."""
    config.nav = _expanded(NAV)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from elsewhere, and those that only name what mkdocstrings reads."""
    for path, place in PLACES.items():
        inside = files.get_file_from_path(path.relative_to(DOCS).as_posix()) if path.is_relative_to(DOCS) else None
        if inside is not None:
            files.remove(inside)
        files.append(File.generated(config, place, content=path.read_text(encoding="utf-8")))
    for place, module in API.items():
        content = f"---\ntitle: {module}\n---\n\n::: {module}\n"
        files.append(File.generated(config, place, content=content))
    files.append(File.generated(config, STYLE, content=(Path(__file__).parent / STYLE).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite the links of a page, outside code, and say how much it counts in a search."""
    place = page.file.src_uri
    if place.startswith(LATER):
        page.meta["search"] = {"boost": 0.3}
    source = SOURCES.get(place, DOCS / place)
    if place in API:
        return markdown
    made, end = "", 0
    for code in CODE.finditer(markdown):
        made += _text(markdown[end : code.start()], source, place) + code[0]
        end = code.end()
    return made + _text(markdown[end:], source, place)


def _text(text: str, source: Path, place: str) -> str:
    plain = BRACKETS.sub(r"\\[\1\\]", text)  # mkdocstrings would take them for names of Python
    return LINK.sub(lambda link: _link(link, source, place), plain)


def _link(found: re.Match[str], source: Path, place: str) -> str:
    """A link as it is in the site: to a page of it, or to a file of the repository."""
    path, anchor = found[1], found[2]
    if not path or re.match(r"\w+:", path):
        return found[0]
    target = (source.parent / path).resolve()
    if not target.exists():
        return found[0]
    there = PLACES.get(target)
    if there is None and target.is_relative_to(DOCS) and target.suffix in SHIPPED:
        there = target.relative_to(DOCS).as_posix()
    if there is None:
        kind = "tree" if target.is_dir() else "blob"
        return f"{REPOSITORY}/{kind}/main/{target.relative_to(ROOT).as_posix()}{anchor}"
    return posixpath.relpath(there, posixpath.dirname(place) or ".") + anchor


def _expanded(nav: list[Any]) -> list[Any]:
    made: list[Any] = []
    for item in nav:
        if isinstance(item, dict):
            made += [{title: _expanded(items)} for title, items in item.items()]
        elif "*" in item:
            found = (PLACES.get(path, path.relative_to(DOCS).as_posix()) for path in sorted(DOCS.glob(item)))
            made += sorted(found, key=lambda place: not place.endswith("index.md"))
        else:
            made.append(item)
    return made
