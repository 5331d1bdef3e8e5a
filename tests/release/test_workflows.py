"""Workflows, forms and Renovate's configuration are valid, and name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))
BIN = Path(sys.executable).parent
SCHEMAS = {
    "vendor.github-issue-forms": list(GITHUB.glob("ISSUE_TEMPLATE/*.yaml")),
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.renovate": [GITHUB / "renovate.json"],
}
PINNED = re.compile(r"^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def targets() -> set[str]:
    """The Makefile's."""
    return set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def lint(actionlint: Path, *files: Path) -> tuple[int, str]:
    """Exit code, and what actionlint says; shellcheck reads the scripts where it is."""
    command: list[str | Path] = [actionlint, f"-shellcheck={BIN / 'shellcheck'}", "-pyflakes=", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_actionlint(actionlint: Path) -> None:
    """It has nothing to say."""
    assert len(WORKFLOWS) > 1
    assert lint(actionlint, *WORKFLOWS) == (0, "")


WRONG = [
    ("needs: [test, packages, archive, image, chart]", "needs: [test, wheels]", 'needs job "wheels"'),
    ("steps.push.outputs.digest", "steps.pull.outputs.digest", 'property "pull" is not defined'),
    ("ubuntu-22.04-arm,", "ubuntu-22.04-risc,", 'label "ubuntu-22.04-risc" is unknown'),
    ("id-token: write", "id-token: wrote", '"wrote" is invalid'),
]


@pytest.mark.parametrize(("right", "wrong", "said"), WRONG, ids=[case[1] for case in WRONG])
def test_actionlint_can_fail(actionlint: Path, tmp_path: Path, right: str, wrong: str, said: str) -> None:
    """It finds a wrong word in a right workflow."""
    text = (GITHUB / "workflows" / "release.yaml").read_text()
    assert right in text
    file = tmp_path / "release.yaml"
    file.write_text(text.replace(right, wrong))
    code, found = lint(actionlint, file)
    assert code == 1
    assert said in found


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas(schema: str) -> None:
    """Forms and configurations are valid by the schemas that check-jsonschema brings."""
    assert SCHEMAS[schema]
    command: list[str | Path] = [BIN / "check-jsonschema", "--builtin-schema", schema, *SCHEMAS[schema]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """(its name with the workflow's, the job) of all workflows."""
    for file in WORKFLOWS:
        for name, job in yaml.safe_load(file.read_text())["jobs"].items():
            yield f"{file.stem}/{name}", job


def test_actions_are_pinned() -> None:
    """By commit, with the version beside it for people; our own workflows are those of the same commit."""
    used = [line for file in WORKFLOWS for line in re.findall(r"uses: (.*)", file.read_text())]
    assert len(used) > 20
    ours = {one for one in used if one.startswith("./") and (ROOT / one).is_file()}
    assert [one for one in used if one not in ours and not PINNED.match(one)] == []
    versions = {(one.partition("@")[0], one.partition("@")[2]) for one in used if "@" in one}
    assert len({name for name, _ in versions}) == len(versions), "an action is used in two versions"


def test_jobs_do_what_people_do() -> None:
    """By targets of the Makefile, with few rights, and for a limited time."""
    wanted = targets()
    made = set()
    for file in WORKFLOWS:
        assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}, file.name
    for name, job in jobs():
        if "uses" in job:
            continue
        assert job["timeout-minutes"], name
        for step in job["steps"]:
            for line in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", step.get("run", "")):
                made |= set(line.split())
    assert made <= wanted
    assert {"check", "test", "image", "packages", "archive", "krew", "release-notes", "site"} <= made


def test_nothing_is_published_untested() -> None:
    """Each job that can write a package, a release or an identity's signature comes after the tag was verified."""
    release = {name.partition("/")[2]: job for name, job in jobs() if name.startswith("release/")}

    def before(name: str) -> set[str]:
        needs = release[name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else set(needs)
        return direct | {one for need in direct for one in before(need)}

    assert all("tag" in before(name) for name in release if name != "tag")
    writes = {
        name
        for name, job in release.items()
        if {"packages", "contents"} & {scope for scope, right in job.get("permissions", {}).items() if right == "write"}
        or "environment" in job
    }
    assert writes == {"image", "chart", "pypi", "publish", "site"}
    assert all("test" in before(name) for name in writes)


def test_pre_commit_runs_what_make_check_runs() -> None:
    """The same commands, of the same virtual environment."""
    made = (ROOT / "Makefile").read_text().split("\ncheck: ")[1].split("\n\n")[0]
    checks = {line.removesuffix(" .") for line in re.findall(r"\$\(BIN\)/(.*)", made)}
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert {hook["entry"].removeprefix(".venv/bin/") for hook in repo["hooks"]} == checks
