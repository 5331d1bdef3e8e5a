"""What all traces are read with: rows of a table one after the other, and the API objects that are made of them."""

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import ObjectError, unpacking
from podberth.model.wire import encode

HOSTNAME = "kubernetes.io/hostname"
MOST_PODS = 1000
"""The number of pods that a node takes: traces know no such limit."""


class Row(NamedTuple):
    """A row of a table as texts by column; its place is named in each error."""

    place: str
    """File and line."""
    values: Mapping[str, str]

    def error(self, column: str, expected: str) -> ObjectError:
        """Return the error about a value of this row."""
        text = self.values.get(column, "")
        said = f"{shown(text)}: expected {expected}" if text else f"Required value: {expected}"
        return ObjectError(f"{self.place}: {column}: {said}")

    def text(self, column: str) -> str:
        """Return a text; empty where there is none."""
        return self.values.get(column, "").strip()

    def number(self, column: str, empty: float | None = None) -> float:
        """Return a number of at least 0. `empty`: its value where there is no text; None: it is required."""
        text = self.text(column)
        if not text and empty is not None:
            return empty
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found < 1e18:
            raise self.error(column, "a number, 0 or more")
        return found

    def whole(self, column: str, empty: float | None = 0.0) -> int:
        """Return a number without its fraction."""
        return int(self.number(column, empty))

    def name(self, column: str) -> str:
        """Return a text that is not empty."""
        text = self.text(column)
        if not text:
            raise ObjectError(f"{self.place}: {column}: Required value")
        return text

    def moment(self, column: str) -> float | None:
        """Return the seconds since 1970 of a time like 2020-06-09 18:41:01; None where there is none."""
        text = self.text(column)
        if text in ("", "None"):
            return None
        try:
            return datetime.fromisoformat(f"{text}+00:00").timestamp()
        except ValueError:
            raise self.error(column, "a time like 2020-06-09 18:41:01") from None


def rows(path: Path, columns: tuple[str, ...] = (), unique: str = "") -> Iterator[Row]:
    """Yield the rows of a file of CSV with a header, or of JSON with an object on each line; either may be gzipped.

    `columns`: those that a header must have. `unique`: one of them that is no two rows' own. Fields of JSON objects in
    objects have names like `capacity.cpus`. Raises ObjectError that names file, line and column.
    """
    with _opened(path) as text:
        found = _json_rows(path.name, text) if ".json" in path.name else _csv_rows(path.name, text, columns)
        yield from once(found, unique) if unique else found


def once(found: Iterable[Row], unique: str) -> Iterator[Row]:
    """Yield rows, no two of which have the same name in a column. Raises ObjectError."""
    seen: set[str] = set()
    for row in found:
        name = row.name(unique)
        if name in seen:
            raise ObjectError(f"{row.place}: {unique}: {name} is there twice")
        seen.add(name)
        yield row


def tables(directory: Path, name: str) -> list[Path]:
    """Return the files of a table: `NAME.csv`, or parts like `NAME-000000000000.json.gz`, in the order of names."""
    return sorted(
        each
        for each in directory.glob(f"{name}*")
        if each.name.removesuffix(".gz").endswith((".csv", ".json", ".jsonl")) and not each.name[len(name)].isalpha()
    )


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open a file of text, which may be gzipped. Raises ObjectError, also for what is found while it is read."""
    if not path.is_file():
        raise ObjectError(f"{path.name}: no such file")
    opening = gzip.open if path.name.endswith(".gz") else open
    with opening(path, "rt", encoding="utf-8-sig", newline="") as text:
        try:
            with unpacking(path.name):
                yield text
        except UnicodeDecodeError as error:
            raise ObjectError(f"{path.name}: expected text in UTF-8: {error.reason} at byte {error.start}") from None


def _csv_rows(file: str, text: TextIO, columns: tuple[str, ...]) -> Iterator[Row]:
    reader = csv.DictReader(text, skipinitialspace=True)
    try:
        header = reader.fieldnames or ()
        missing = [column for column in columns if column not in header]
        if missing:
            raise ObjectError(f"{file}, line 1: no column {', '.join(missing)}: expected {', '.join(columns)}")
        for values in reader:
            place = f"{file}, line {reader.line_num}"
            if any(value is None for value in values.values()) or None in values:
                raise ObjectError(f"{place}: expected {len(header)} fields")
            yield Row(place, values)
    except csv.Error as error:
        raise ObjectError(f"{file}, line {reader.line_num}: expected CSV: {error}") from None


def _json_rows(file: str, text: TextIO) -> Iterator[Row]:
    for number, line in enumerate(text, start=1):
        if line.strip():
            try:
                document = json.loads(line)
            except RecursionError:
                raise ObjectError(f"{file}, line {number}: is nested too deep") from None
            except ValueError as error:
                raise ObjectError(f"{file}, line {number}: expected an object of JSON: {error}") from None
            if not isinstance(document, dict):
                raise ObjectError(f"{file}, line {number}: expected an object of JSON")
            yield Row(f"{file}, line {number}", dict(_flat(document, "")))


def _flat(document: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)


def node(name: str, room: Mapping[str, str], labels: Mapping[str, str] | None = None) -> bytes:
    """Return a Node with this room; its hostname is its name."""
    room = {"pods": str(MOST_PODS), **room}
    metadata = {"name": name, "labels": {HOSTNAME: name, **(labels or {})}}
    return encode(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "status": {"capacity": room, "allocatable": room},
        }
    )


def pod(
    name: str,
    requests: Mapping[str, str],
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    priority: int = 0,
    gang: str = "",
    **spec: Any,
) -> bytes:
    """Return a Pod of one container. `gang`: its PodGroup. `spec`: further fields of its spec."""
    limits = {key: amount for key, amount in requests.items() if "/" in key}
    resources = {"requests": requests} | ({"limits": limits} if limits else {})
    uid = name if namespace == "default" else f"{namespace}/{name}"
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
    if priority:
        spec["priority"] = priority
    if gang:
        spec["schedulingGroup"] = {"podGroupName": gang}
    return encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata | ({"labels": labels} if labels else {}),
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
                **spec,
            },
        }
    )


def gang(name: str, members: int, namespace: str = "default", priority: int = 0) -> bytes:
    """Return the PodGroup of pods that start together, with their priority."""
    return encode(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace, "uid": f"group-{namespace}-{name}"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": members}}, "priority": priority},
        }
    )


def on_labels(terms: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the affinity of a pod that needs a node with one of the values of each label."""
    expressions = [{"key": key, "operator": "In", "values": values} for key, values in terms.items()]
    terms_of_nodes = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms_of_nodes}}
