"""Reads what `berth policy` is about: policies, objects and test files.

Every complaint names the file, the field and the value.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from podberth.cli.errors import Faults, InputError, about
from podberth.cli.inputs import STDIN, content, documents_of, named
from podberth.explain.judging.schema import shown
from podberth.explain.objects import documents
from podberth.model.selectors import LabelSelector
from podberth.policy import cases, objects, options
from podberth.policy.kinds import is_cluster_scoped
from podberth.policy.objects import ShapeError, check
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import KIND, Policies, Policy

_ENDINGS = (".yaml", ".yml", ".json")
_CASES = re.compile(rb"^cases:", re.MULTILINE)


def _files(paths: list[str]) -> Iterator[tuple[str, bool]]:
    """(file, whether it was named): the files themselves, and those of directories and below that look like manifests
    and hold no tests.
    """
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            yield from ((str(found), False) for found in _below(Path(path)) if not _has_cases(found))
        else:
            yield path, True


def _below(directory: Path) -> Iterator[Path]:
    """Yield the files of JSON and YAML in a directory and below it, but for what is hidden, as copies of a volume."""
    for found in sorted(directory.rglob("*")):
        hidden = any(part.startswith(".") for part in found.relative_to(directory).parts)
        if found.suffix in _ENDINGS and found.is_file() and not hidden:
            yield found


def _has_cases(path: Path) -> bool:
    """Return whether a file looks like tests of policies."""
    return path.suffix != ".json" and _CASES.search(path.read_bytes()) is not None


def policy_documents(paths: list[str], faults: Faults) -> Iterator[tuple[str, Any]]:
    """Every MetadataPolicy, and where it stands.

    `faults` gets a line for what can't be read, and for each object of another kind in a file that was named;
    directories may hold others.
    """
    found = False
    for path, was_named in _files(paths):
        for document in documents_of(path, faults):
            place = ": ".join(part for part in (named(path), document.place) if part)
            if document.kind == KIND:
                found = True
                with faults.noting(), about(named(path)):
                    yield place, documents.plain(document)
            elif was_named:
                with faults.noting():
                    raise InputError(f"{place}: kind: {shown(document.kind)}: expected {KIND}")
    if not found and not faults.noted:
        with faults.noting():
            raise InputError(f"{', '.join(map(named, paths))}: holds no {KIND}")


def accepted(paths: list[str], faults: Faults, allowed: tuple[str, ...] = ()) -> list[Policy]:
    """The policies of files.

    `faults` gets a line for each problem of those that can't be read, or can't be accepted.
    """
    found: list[Policy] = []
    for place, document in policy_documents(paths, faults):
        with faults.noting():
            try:
                found.append(parse(document, allowed, new=True))
            except PolicyError as error:
                raise InputError("\n".join(f"{place}: {problem}" for problem in error.problems)) from None
    return found


def read_policies(paths: list[str], allowed: tuple[str, ...] = ()) -> Policies:
    """The policies of files. Raises InputError with a line for each problem of any of them."""
    faults = Faults()
    found = accepted(paths, faults, allowed)
    faults.tell()
    return Policies(found)


def one_object(path: str, namespace: str | None) -> Any:
    """The one object of a file, which is in this namespace or names none."""
    with about(named(path)):
        found = documents.read(content(path))
        if len(found) > 1:
            raise documents.ObjectError(f"expected one object, got {len(found)}")
        one = _checked(documents.plain(found[0]), "")
        there = objects.namespace(one)
        if namespace and there and there != namespace:
            raise documents.ObjectError(
                f"metadata.namespace: {shown(there)}: expected {namespace}, as --namespace says"
            )
        return one


def all_objects(paths: list[str], namespace: str | None, faults: Faults) -> list[Any]:
    """The objects of files: all, or those of a namespace and those that name none and are in one."""
    held: list[Any] = []
    for path in paths:
        for document in documents_of(path, faults):
            with faults.noting(), about(named(path)):
                found = _checked({"kind": document.kind, **documents.plain(document)}, document.place)
                there = objects.namespace(found)
                scoped = is_cluster_scoped(*objects.group_and_kind(found))
                if not namespace or there == namespace or not (there or scoped):
                    held.append(found)
    return held


def _checked(found: Any, place: str) -> Any:
    try:
        return check(found)
    except ShapeError as error:
        raise documents.ObjectError(documents.located(place, str(error))) from None


def test_files(directory: str) -> Iterator[Path]:
    root = Path(directory)
    if not root.is_dir():
        raise InputError(f"{directory}: expected a directory")
    yield from filter(_has_cases, _below(root))


def run_tests(path: Path, faults: Faults) -> Iterator[dict[str, Any]]:
    """Yield what came of each case of a file; `faults` gets what is wrong with the others, and with its policies."""
    with faults.noting(), about(str(path)):
        suite = documents.parse(content(str(path)))
        if not isinstance(suite, dict) or not isinstance(suite.get("cases"), list):
            raise documents.ObjectError("cases: want a list")
        held = suite.get("policies")
        if not isinstance(held, list) or not held:
            raise documents.ObjectError("policies: want a list of files, or of MetadataPolicies")
        prefixes = [_allowed(case) for case in suite["cases"]]
        policies = {allowed: Policies(_tested(path, held, allowed, faults)) for allowed in {*prefixes} or {()}}
        for i, case in enumerate(suite["cases"]):
            with faults.noting(), about(str(path)):
                try:
                    failures = cases.check(policies[prefixes[i]], case, f"cases[{i}]")
                except cases.CaseError as error:
                    raise documents.ObjectError(str(error)) from None
                yield {"file": str(path), "name": cases.title(case, i), "failures": failures}


def _tested(path: Path, held: list[Any], allowed: tuple[str, ...], faults: Faults) -> list[Policy]:
    """The policies of a file of tests, with these prefixes allowed; `faults` gets what is wrong with the others."""
    given: list[Policy] = []
    for i, item in enumerate(held):
        if isinstance(item, str):
            given += accepted([str(path.parent / item)], faults, allowed)
            continue
        with faults.noting(), about(str(path)):
            try:
                given.append(parse(item, allowed, new=True))
            except PolicyError as error:
                raise documents.ObjectError(f"policies[{i}]: {error.line}") from None
    return given


def _allowed(case: Any) -> tuple[str, ...]:
    """The prefixes that a case allows; none of one that can't be read, about which `cases.check` complains."""
    try:
        return options.parse(case.get("options")).allowed_prefixes
    except (AttributeError, options.OptionsError):
        return ()


def owner_selector(text: str) -> LabelSelector:
    """A label selector as JSON on the command line."""
    try:
        return options.selector(msgspec.json.decode(text, type=dict[str, Any]), "selector")
    except options.OptionsError as error:
        raise InputError(f"--owner-selector: {error}") from None
    except (msgspec.DecodeError, RecursionError):
        raise InputError(f"--owner-selector: {shown(text)}: expected a JSON object") from None
