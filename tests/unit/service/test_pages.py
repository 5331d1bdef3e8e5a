"""/statusz and /flagz: which form an Accept header gets, and what is in it."""

from __future__ import annotations

import json

import pytest
import yaml

from podberth import __version__
from podberth.service.pages import About, zpage

ABOUT = About("berth", {"seed": "0", "config": "a.yaml"})
OBJECT = "g=config.k8s.io;v=v1beta1;as=Statusz"
OLD = "g=config.k8s.io;v=v1alpha1;as=Statusz"
TEXT = "text/plain; charset=utf-8"
REFUSED = "application/json"


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        ("", TEXT),
        ("text/plain", TEXT),
        ("*/*", TEXT),
        ("text/*;q=0.5", TEXT),
        (f"application/json;{OBJECT}", f"application/json;{OBJECT}"),
        ("application/json; as=Statusz; v=v1beta1; g=config.k8s.io", f"application/json;{OBJECT}"),
        (f"application/yaml;{OBJECT}", f"application/yaml;{OBJECT}"),
        (f"*/*;{OBJECT}", f"application/json;{OBJECT}"),
        (f"application/json;{OLD},application/json;{OBJECT}", f"application/json;{OLD}"),
        (f"application/json;{OLD};q=0.3,application/json;{OBJECT}", f"application/json;{OBJECT}"),
        ("application/json;v=foo;g=config.k8s.io;as=Statusz,*/*", TEXT),
        ("text/plain;q=0.2,application/xml", TEXT),
        ("application/json", REFUSED),
        ("application/json;v=v1beta1;g=config.k8s.io", REFUSED),
        ("application/json;g=config.k8s.io;v=v1beta1;as=Flagz", REFUSED),
        (f"application/json;stream=watch;{OBJECT}", REFUSED),
        (f"text/plain;{OBJECT}", REFUSED),
        ("application/xml", REFUSED),
        (";;,=,/;q=x", REFUSED),
    ],
)
def test_what_a_client_accepts(accept: str, want: str) -> None:
    """The first form of those that it wants most, and 406 where we have none of them."""
    found = zpage("/statusz", accept, ABOUT, ())
    assert (found.headers["Content-Type"], found.status) == (want, 406 if want == REFUSED else 200)
    assert ("Warning" in found.headers) == ("v1alpha1" in want)


def test_status() -> None:
    """As text and as an object: the same facts."""
    text = zpage("/statusz", "", ABOUT, ["/readyz", "/livez"]).body.decode().splitlines()
    assert text[1] == "berth statusz"
    told = dict(line.split(": ", 1) for line in text[4:])
    made = json.loads(zpage("/statusz", f"application/json;{OBJECT}", ABOUT, ["/readyz", "/livez"]).body)
    assert (made["kind"], made["apiVersion"], made["metadata"]) == (
        "Statusz",
        "config.k8s.io/v1beta1",
        {"name": "berth"},
    )
    assert (made["binaryVersion"], made["emulationVersion"]) == (__version__, "1.37")
    assert told["Paths"].split() == made["paths"] == ["/livez", "/readyz"]
    assert (told["Binary version"], told["Emulation version"]) == (__version__, "1.37")


def test_flags() -> None:
    """In the order of their names."""
    text = zpage("/flagz", "*/*", ABOUT, ()).body.decode().splitlines()
    assert (text[1], text[3:]) == ("berth flagz", ["config=a.yaml", "seed=0"])
    accept = "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz"
    assert yaml.safe_load(zpage("/flagz", accept, ABOUT, ()).body)["flags"] == ABOUT.flags
