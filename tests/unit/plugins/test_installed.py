"""A plugin of another package: pip install, name it in the configuration, done. And packages that are broken."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import build
from podberth.plugins import registry as room
from podberth.plugins.registry import registry
from tests.builders import configuration, profile
from tests.packages import EXAMPLE, ROOT, install_example


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has put the example package."""
    return install_example(tmp_path_factory.mktemp("site"))


def test_its_own_tests(installed: Path) -> None:
    """The example's tests pass where it is installed as people install it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


Offer = Callable[..., None]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Offer]:
    """`offer(code, "Name", …)`: a module `offered`, installed with these names as entry points."""

    def make(code: str, *names: str) -> None:
        (tmp_path / "offered.py").write_text(code)
        entries = [EntryPoint(name, f"offered:{name}", room.GROUP) for name in names]
        monkeypatch.setattr(room, "entry_points", lambda group: entries)

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    sys.modules.pop("offered", None)


def enabled(name: str) -> Any:
    return build(decode(configuration(profile(plugins={"multiPoint": {"enabled": [{"name": name}]}}))), registry())


FINE = """
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import *
class Own(Plugin):
    name = 'Own'
    depends_on = NODE
    def filter(self, pod, cluster):
        return ()
"""
WHERE = 'profiles[0].plugins.multiPoint.enabled[0].name: Invalid value: "Own": offered:Own of an installed package'


@pytest.mark.parametrize(
    ("id", "code", "says"),
    [
        ("no such module", "import nothing_of_this_name", "can't be loaded: there is no module"),
        ("no such class", "", 'can\'t be loaded: it uses "Own", which the module "offered" does not have'),
        ("not a class", "Own = 7", "is no plugin: want a class, got 7"),
        ("another name", FINE.replace("'Own'", "'Owen'"), 'its attribute name is "Owen", should be "Own"'),
        ("no base", "class Own:\n    name = 'Own'\n", "it does not derive from podberth.kit.Plugin"),
        (
            "coroutine",
            FINE.replace("def filter", "async def filter"),
            "filter can't be a coroutine function, only permit",
        ),
        ("events", FINE + "    events = 'all'\n", 'its events is "all", should be a ClusterEvent'),
        ("time_limit", FINE + "    time_limit = 0\n", "its time_limit is 0, should be seconds, more than 0"),
        ("Args", FINE + "    Args = dict\n", "its Args is the class dict, should be a msgspec.Struct class"),
    ],
)
def test_broken_packages(offer: Offer, id: str, code: str, says: str) -> None:
    """One line that names the field, the package and what is wrong; a profile that does not name it is not bothered."""
    offer(code, "Own")
    build(decode(configuration(profile())), registry())
    with pytest.raises(ConfigError) as refused:
        enabled("Own")
    (line,) = str(refused.value).splitlines()
    assert line.startswith(WHERE)
    assert says in line


def test_a_constructor_that_raises(offer: Offer) -> None:
    """It is the configuration that can't be used; the line says which plugin, and where it comes from."""
    offer(FINE + "    def __init__(self, args):\n        raise OSError('no such device')\n", "Own")
    line = r'profiles\[0\]: plugin "Own" of offered: no such device'
    with pytest.raises(ConfigError, match=line):
        enabled("Own")


def test_no_arguments_wanted(offer: Offer) -> None:
    """A class without Args refuses those that are given."""
    offer(FINE, "Own")
    assert enabled("Own")["berth"].plugin("Own").name == "Own"
    with pytest.raises(ConfigError, match=r"pluginConfig\[0\].args.speed: Unknown field"):
        build(decode(configuration(profile(Own={"speed": 1}))), registry())


@pytest.mark.parametrize("names", [("NodeName",), ("Own", "Own")], ids=["in-tree", "twice"])
def test_a_name_that_is_taken(offer: Offer, names: tuple[str, ...]) -> None:
    """Two plugins of one name: nobody would know which one runs."""
    offer(FINE, *names)
    with pytest.raises(ConfigError, match=f'the name "{names[0]}" is taken'):
        registry()
