"""Readers of published traces, and of a plain form of our own. Each finds its files by their published names."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from podberth.lab.world import World

FORMS = (
    "Alibaba's openb (openb_nodes.csv, openb_pods.csv), Google's ClusterData 2019 (instance_events…, machine_events…, "
    "collection_events…), Azure's packing trace (a file of SQLite), Helios (cluster_log.csv, "
    "cluster_gpu_number.csv), or nodes and pods as .csv or .parquet"
)
TABLES = (".csv", ".csv.gz", ".parquet")
"""How the names of the two tables of the plain form may end."""
_SQLITE = b"SQLite format 3\0"


def reader_of(path: Path) -> Callable[[], World] | None:
    """Return what reads the trace at a path: a directory, or a database of SQLite. None: there is no trace."""
    name, found = _form_of(path)
    if not name:
        return None
    reader: Any = import_module(f"podberth.lab.traces.{name}")
    return lambda: reader.read(found)


def _form_of(path: Path) -> tuple[str, Path]:
    """Return the module that reads a trace, and what it reads."""
    if path.is_file():
        return ("azure" if _is_sqlite(path) else ""), path
    files = {each.name for each in path.iterdir()} if path.is_dir() else set()
    if {"openb_nodes.csv", "openb_pods.csv"} & files:
        return "openb", path
    if any(name.startswith("instance_events") for name in files):
        return "google2019", path
    if "cluster_log.csv" in files:
        return "helios", path
    if all(any(f"{table}{ending}" in files for ending in TABLES) for table in ("nodes", "pods")):
        return "plain", path
    databases = [each for each in sorted(path.glob("*.sqlite*")) if _is_sqlite(each)] if files else []
    return ("azure", databases[0]) if databases else ("", path)


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
