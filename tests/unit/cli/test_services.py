"""Plain options without typer's machinery: the same as with it, or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from podberth.cli import SERVICES, services
from podberth.cli.commands import imported

DATACLASSES = 24
"""Each takes half a millisecond to make, as its methods are compiled then; a msgspec.Struct takes a thirtieth."""


def command(
    config: str | None = None, bind_address: str = "", secure_port: int = 10259, deep: bool = False, more: str | int = 0
) -> int:
    """Takes options."""
    return 0


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], {}),
        (["--config=a=b", "--secure-port", "0"], {"config": "a=b", "secure_port": 0}),
        (["--config", "-", "--bind-address="], {"config": "-", "bind_address": ""}),
        (["--config=a", "--config=b"], {"config": "b"}),
        (["--help"], None),
        (["file"], None),
        (["-c", "x"], None),
        (["--config"], None),
        (["--config", "--secure-port=1"], None),
        (["--bind_address=x"], None),
        (["--secure-port=one"], None),
        (["--secure-port=-1"], None),
        (["--secure-port=²"], None),
        (["--deep"], None),
        (["--deep=yes"], None),
        (["--more=1"], None),
        (["--return=1"], None),
        (["--"], None),
        (["----config=x"], None),
    ],
)
def test_plain_options(arguments: list[str], want: dict[str, str | int] | None) -> None:
    """All of them understood, or none."""
    assert services.read(arguments, command) == want


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_typer_reads_the_same(name: str) -> None:
    """Each option of a service that is read plainly has the name, the default and the kind that typer gives it."""
    service = getattr(import_module(f"podberth.cli.{name}"), name)
    made = typer.main.get_command(imported(name))
    by_name = {parameter.name: parameter for parameter in made.params}
    read = 0
    for option, value in (each for parameter in by_name for each in ((parameter, "7"), (parameter, "text"))):
        words = [f"--{option.replace('_', '-')}", value]
        given = services.read(words, service)
        if given is not None:
            with made.make_context(name, list(words)) as context:
                assert context.params[option] == given[option]
                assert type(context.params[option]) is type(given[option])
            read += 1
    assert read


def test_a_scheduler_starts_without_what_it_does_not_need(tmp_path: Path) -> None:
    """Up to its first request `berth run` imports no client or server that it does not use, nor what terminals need,
    nor what reads options that are not plain, nor what finds packages' plugins. Of our own classes few are dataclasses.
    """
    heavy = ["aiohttp", "pydantic", "rich", "cryptography", "kubernetes", "kopf", "jinja2", "prometheus_client"]
    heavy += ["podberth.cel.program", "typer", "http.client", "opentelemetry", "importlib.metadata"]
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "me", "user": {"token": "t"}}],
                "contexts": [context],
                "current-context": "here",
            }
        )
    )
    code = (
        "import sys, podberth.cli.run, podberth.service.run as service; from podberth.cli.main import run;"
        "service.run_service = lambda coroutine: coroutine.close() or 0;"
        f"code = run(['run', '--kubeconfig={kubeconfig}', '--secure-port', '0']);"
        f"print(code, [name for name in {heavy!r} if name in sys.modules]);"
        "ours = [module for name, module in sys.modules.items() if name.startswith('podberth.')];"
        "made = {one for module in ours for one in vars(module).values() if hasattr(one, '__dataclass_fields__')};"
        "print(len({one for one in made if isinstance(one, type) and one.__module__.startswith('podberth.')}));"
        "run(['run', '--kubeconfig=/nowhere/kubeconfig'])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    said, dataclasses = found.stdout.splitlines()
    assert said == "0 []"
    assert int(dataclasses) <= DATACLASSES
    assert found.stderr == "berth: /nowhere/kubeconfig: no such file; expected a kubeconfig\n"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_imported_at_once(name: str) -> None:
    """Its module waits until it runs for what it needs then."""
    code = (
        f"import sys, podberth.cli.{name};"
        "print([m for m in sys.modules if m.startswith(('podberth.engine', 'podberth.explain', 'podberth.kube'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_a_decision_imports_nothing() -> None:
    """An import in the first decision would hold the event loop: masked arrays, for one, which np.unique asks for."""
    code = (
        "import sys; from tests.unit.engine.conftest import Harness, node, pod; harness = Harness();"
        "poor = node('poor'); del poor['status']['allocatable']['memory'];"
        "harness.put(node('n'), poor, pod('p')); before = {*sys.modules};"
        "print(harness.binds(), {*sys.modules} - before)"
    )
    root = Path(__file__).parents[3]
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert found.stdout == "{'p': 'poor'} set()\n"
