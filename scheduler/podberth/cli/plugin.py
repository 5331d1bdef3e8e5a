"""`berth plugin`: a package to begin a plugin with, made from `podberth/kit/template`."""

import re
import sys
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from podberth import kit
from podberth.cli.errors import InputError
from podberth.model.mistakes import as_json
from podberth.plugins.registry import registry

FILES = {
    "pyproject.toml": "pyproject.txt",
    "README.md": "README.md",
    "scheduler.yaml": "scheduler.yaml",
    "$module/__init__.py": "plugin.txt",
    "tests/test_$module.py": "test.txt",
}
"""Each file of such a package, and its template. A linter would refuse some of these before the names are in them."""
TAKEN = {"tests", "conftest", "setup"}
_NAME = re.compile("[A-Z][A-Za-z0-9]*")
_WORD = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Between two words of a name: NoMaintenance, HTTPCheck."""

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Begin a plugin of your own.")


@app.callback()
def plugin() -> None:
    """Begin a plugin of your own."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The plugin's name and its class, such as NoMaintenance.")],
) -> None:
    """Make a package with a plugin that works: its tests, its entry point, and a configuration that names it.

    The package is a new directory here, named like the plugin: no-maintenance.
    """
    made = rendered(name)
    folder = Path(_module(name).replace("_", "-"))
    if folder.exists():
        raise InputError(f"{folder}: expected a new directory, and there is one already")
    for path, text in made.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    sys.stdout.write("".join(f"{folder / path}\n" for path in made))
    sys.stdout.write(f"\nNext:\n  cd {folder}\n  pip install --editable . pytest\n  pytest\n")


def rendered(name: str) -> dict[str, str]:
    """Return the files of a package with one plugin: path → text. Raises InputError for a name that can't be its."""
    module = _module(name)
    _refuse(name, module)
    names = {"plugin": name, "module": module, "package": module.replace("_", "-")}
    folder = files("podberth.kit") / "template"
    return {
        Template(path).substitute(names): Template((folder / kept).read_text(encoding="utf-8")).substitute(names)
        for path, kept in FILES.items()
    }


def _module(name: str) -> str:
    """Return a plugin's module: no_maintenance."""
    return _WORD.sub("_", name).lower()


def _refuse(name: str, module: str) -> None:
    """Raise InputError if a plugin can't have this name."""
    if not _NAME.fullmatch(name) or iskeyword(name):
        raise InputError(f"NAME: {as_json(name)}: expected letters and digits, first a capital, such as NoMaintenance")
    if name in registry():
        raise InputError(f'NAME: "{name}": expected a new name, and there is a plugin with this one')
    if name in kit.__all__:
        raise InputError(f'NAME: "{name}": expected a new name, and podberth.kit has this one')
    if module in TAKEN:
        raise InputError(f'NAME: "{name}": expected another name, as the package has a file or a folder of this one')
    if iskeyword(module) or find_spec(module) is not None:
        raise InputError(f'NAME: "{name}": expected a name whose module is new, and Python has a module "{module}"')
