"""A plugin of another package: pip install, name it in the configuration, done. And packages that are broken."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import chdir
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from podberth.cli.main import run
from podberth.cli.plugin import rendered
from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import build
from podberth.plugins import registry as room
from podberth.plugins.registry import registry
from tests.builders import configuration, profile
from tests.packages import EXAMPLE, ROOT, install_example


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that `berth plugin new` has made in an empty directory."""
    here = tmp_path_factory.mktemp("made")
    with chdir(here):
        assert run(["plugin", "new", "NoMaintenance"]) == 0
    return here / "no-maintenance"


@pytest.fixture(scope="module")
def installed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory into which pip has put the example package and the one that was made."""
    return install_example(tmp_path_factory.mktemp("site"), made)


def test_their_own_tests(made: Path, installed: Path) -> None:
    """The tests of both pass where they are installed as people install them; those that are made prove the plugin."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests"), str(made)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_its_configuration(
    made: Path, installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The profile that comes with a package that was made is fine once the package is installed, not before."""
    command = ["config", "lint", str(made / "scheduler.yaml")]
    assert run(command) == 1
    assert "NoMaintenance: no plugin of this name" in capsys.readouterr().out
    monkeypatch.syspath_prepend(str(installed))
    code = run(command)
    sys.modules.pop("no_maintenance", None)
    assert code == 0, capsys.readouterr()


def test_the_example_is_like_it() -> None:
    """The example's pyproject.toml is what `berth plugin new` writes, but for its own names and what it needs."""
    new, example = (
        tomllib.loads(rendered("Harbour")["pyproject.toml"]),
        tomllib.loads((EXAMPLE / "pyproject.toml").read_text()),
    )
    assert new.pop("project").keys() == example.pop("project").keys()
    new["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] = ["berth_harbour"]
    assert example == new


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no-maintenance", "expected letters and digits, first a capital, such as NoMaintenance"),
        ("No\nMaintenance", "expected letters and digits, first a capital, such as NoMaintenance"),
        ("None", "expected letters and digits, first a capital, such as NoMaintenance"),
        ("NodeName", "expected a new name, and there is a plugin with this one"),
        ("Plugin", "expected a new name, and podberth.kit has this one"),
        ("Tests", "expected another name, as the package has a file or a folder of this one"),
        ("Conftest", "expected another name, as the package has a file or a folder of this one"),
        ("Json", 'expected a name whose module is new, and Python has a module "json"'),
        ("Import", 'expected a name whose module is new, and Python has a module "import"'),
    ],
)
def test_names_that_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, says: str) -> None:
    """One line says why, and nothing is written."""
    with chdir(tmp_path):
        assert run(["plugin", "new", name]) == 2
    assert capsys.readouterr() == ("", f"berth: NAME: {json.dumps(name)}: {says}\n")
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is left as it is."""
    (tmp_path / "no-maintenance").mkdir()
    with chdir(tmp_path):
        assert run(["plugin", "new", "NoMaintenance"]) == 2
    assert capsys.readouterr().err == "berth: no-maintenance: expected a new directory, and there is one already\n"
    assert not list((tmp_path / "no-maintenance").iterdir())


Offer = Callable[..., None]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Offer]:
    """`offer(code, "Name", …)`: a module `offered`, installed with these names as entry points."""

    def make(code: str, *names: str) -> None:
        (tmp_path / "offered.py").write_text(code)
        entries = [EntryPoint(name, f"offered:{name}", room.GROUP) for name in names]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)

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


def test_arguments_that_are_missing(offer: Offer) -> None:
    """The line names the plugin, and not the entry of another one."""
    offer(f"import msgspec\n{FINE}    class Args(msgspec.Struct):\n        speed: int\n", "Own")
    document = configuration(profile("a", {"multiPoint": {"enabled": [{"name": "Own"}]}}, NodeName={}))
    with pytest.raises(ConfigError, match=r"^profiles\[0\]\.pluginConfig\[Own\]\.args\.speed: Required value$"):
        build(decode(document), registry())


@pytest.mark.parametrize("names", [("NodeName", "Own"), ("Own", "Own")], ids=["in-tree", "twice"])
def test_a_name_that_is_taken(offer: Offer, names: tuple[str, ...]) -> None:
    """Nobody would know which of two plugins of one name runs, so none of a package does. In-tree ones do."""
    offer(FINE, *names)
    with pytest.raises(ConfigError, match=f'the name "{names[0]}" is taken'):
        enabled("Own")
    assert "NodeName" in enabled("NodeName")["berth"].profile.by_name
