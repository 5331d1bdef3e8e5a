"""/statusz and /flagz: which form an Accept header gets, and what is in it."""

from __future__ import annotations

import json

import pytest

from podberth import __version__
from podberth.service.pages import About, zpage

ABOUT = About("berth", {"seed": "0", "config": "a.yaml"})
TEXT = "text/plain; charset=utf-8"
OBJECT = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz"


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        ("", TEXT),
        ("text/plain", TEXT),
        ("*/*", TEXT),
        (OBJECT, OBJECT),
        ("application/json; as=Statusz; v=v1beta1; g=config.k8s.io", OBJECT),
        ("application/json", OBJECT),
        ("application/yaml,application/json;q=0.9", OBJECT),
        ("application/xml", TEXT),
        (";;,=,/;q=x", TEXT),
    ],
)
def test_what_a_client_accepts(accept: str, want: str) -> None:
    """JSON where the client takes it, and text otherwise."""
    found = zpage("/statusz", accept, ABOUT, ())
    assert found.headers["Content-Type"] == want


def test_status() -> None:
    """As text and as an object: the same facts."""
    text = zpage("/statusz", "", ABOUT, ["/readyz", "/livez"]).body.decode().splitlines()
    assert text[1] == "berth statusz"
    told = dict(line.split(": ", 1) for line in text[4:])
    made = json.loads(zpage("/statusz", OBJECT, ABOUT, ["/readyz", "/livez"]).body)
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
    assert json.loads(zpage("/flagz", "application/json", ABOUT, ()).body)["flags"] == ABOUT.flags
