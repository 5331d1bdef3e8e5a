"""`berth dump`: what explain, simulate and capacity read of a cluster, and nothing else, in one file."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from podberth.cli.errors import Faults, InputError, about, complain
from podberth.cli.inputs import documents, named, profiles
from podberth.cli.options import Context, Kubeconfig, RequestTimeout
from podberth.cli.output import as_json, private
from podberth.explain.explanation import API_VERSION
from podberth.explain.objects.documents import plain
from podberth.explain.objects.dump import Masks, smallest
from podberth.explain.objects.world import DUMP, kinds_held
from podberth.model.annotated import NOTHING_READ, AnnotationsRead

app = typer.Typer(add_completion=False)


@app.command()
def dump(
    file: Annotated[
        str,
        typer.Option("-f", "--filename", help="The file to write, packed if its name ends in .gz; - is stdout."),
    ] = "-",
    cluster: Annotated[
        list[str] | None,
        typer.Option(help="Read a dump instead of a live cluster, to make it smaller. May be repeated."),
    ] = None,
    mask: Annotated[
        bool,
        typer.Option("--mask", help="Replace names, values of labels and images; the same ones by the same masks."),
    ] = False,
    table: Annotated[
        str | None,
        typer.Option(
            "--mask-table",
            help="With --mask: write the masks and what they stand for to this file, which only you may read. Keep it.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="Keep the annotations that the plugins of this KubeSchedulerConfiguration read, too."),
    ] = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    timeout: RequestTimeout = "30s",
) -> None:
    """Write the smallest file that explain, simulate and capacity need: no Secrets, environments or commands.

    Names, labels and images stay in it, unless they are masked: what explain, simulate and capacity say of a masked
    dump is what they say of the dump itself, with other names.
    """
    if table is not None and not mask:
        raise InputError("--mask-table: expected only together with --mask")
    if table is not None and Path(table).resolve() == Path(file).resolve():
        raise InputError(f"--mask-table: {table}: expected another file than the dump")
    if config is not None and mask:
        raise InputError("--config: expected without --mask: annotations of plugins may hold names, and are not masked")
    kinds: dict[str, None] = {}
    read = _read_by(config) if config is not None else NOTHING_READ
    items = list(_smallest(_objects(cluster, kubeconfig, context, timeout, kinds), read))
    if mask:
        masks = Masks(items)
        items = [masks.masked(each) for each in items]
        if table is not None:
            with private(table) as written:
                written.write(msgspec.json.format(msgspec.json.encode(masks.table()), indent=1) + b"\n")
    if kinds:
        items.insert(0, {"apiVersion": API_VERSION, "kind": DUMP, "kinds": list(kinds)})
    raw = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
    if file == "-":
        as_json(raw)
        return
    Path(file).write_bytes(gzip.compress(raw, 6) if file.endswith(".gz") else raw)
    complain([f"{file}: {len(items):,} objects"])


def _read_by(config: str) -> AnnotationsRead:
    """Return the annotations that the plugins of a configuration read. Raises InputError."""
    from podberth.framework.profiles import annotated  # without --config, no plugin is loaded

    return annotated(profiles(config)[1])


def _smallest(objects: Iterable[tuple[str, dict[str, Any]]], read: AnnotationsRead) -> Iterator[dict[str, Any]]:
    """Yield the smaller objects. Raises InputError with a line for each that can't be made smaller."""
    faults = Faults()
    for where, found in objects:
        made: dict[str, Any] | None = None
        with faults.noting(), about(where):
            made = smallest(found, read)
        if made is not None:
            yield made
    faults.tell()


def _objects(
    cluster: list[str] | None, kubeconfig: str | None, context: str | None, timeout: str, kinds: dict[str, None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place in its file or list, object). `kinds` gets those of which all objects are there."""
    if cluster:
        for path in cluster:
            for document in documents(path):
                where = ": ".join(filter(None, (named(path), document.place, document.kind)))
                if document.kind == DUMP:
                    with about(named(path)):
                        kinds.update(dict.fromkeys(kinds_held(document)))
                else:
                    yield where, {**plain(document), "kind": document.kind}
        return
    from podberth.cli.live import fetched

    for resource, items in fetched(kubeconfig, context, timeout):
        kinds[resource.kind] = None
        for item in items:
            found = {**msgspec.json.decode(item), "kind": resource.kind, "apiVersion": resource.api_version}
            yield resource.kind, found
