"""Files that commands read: dumps of a cluster, pods, configurations. Every complaint names the file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.cli.errors import InputError, about, complain
from scheduler.framework.config import SchedulerConfiguration, decode, default_configuration
from scheduler.whatif.documents import Document, ObjectError, parse, read

if TYPE_CHECKING:
    from scheduler.model.kinds import Decoder
    from scheduler.whatif.world import World

STDIN = "-"
_LARGE = 4 << 20
"""YAML of this size is read for seconds."""


def content(path: str) -> bytes:
    """The bytes of a file, unpacked when its name ends in .gz; `-` is standard input.

    Raises InputError.
    """
    if path == STDIN:
        return sys.stdin.buffer.read()
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or type(error).__name__).lower()}") from None
    if not path.endswith(".gz"):
        return raw
    import gzip

    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"{path}: expected a gzip file: {error}") from None


def named(path: str) -> str:
    """The name of a file in messages."""
    return "standard input" if path == STDIN else path


def documents(path: str) -> list[Document]:
    """The API objects of a file, or of all files of a directory.

    Raises InputError.
    """
    with about(named(path)):
        text = content(path)
        if len(text) > _LARGE and text.lstrip()[:1] not in (b"{", b"["):
            complain(
                [f"{named(path)}: {len(text) >> 20} MB of YAML takes a while; JSON (kubectl get -o json) does not"]
            )
        return read(text)


def refuse_what_the_api_would(held: list[Document]) -> None:
    """Raise ObjectError with a line for everything in these objects that the API server would refuse."""
    from scheduler.whatif.judging import judge  # dumps are not judged

    wrong = [line for document in held for line in judge(document)]
    if wrong:
        raise ObjectError("\n".join(wrong))


def world(paths: list[str], decoder: "Decoder | None" = None) -> "World":
    """A cluster from the files of a dump.

    Raises InputError.
    """
    from scheduler.whatif.world import World  # `berth run` reads a configuration only

    found = World(decoder)
    for path in paths:
        held = documents(path)
        with about(named(path)):
            found.add_documents(held, named(path))
    if not found.cluster.nodes.count:
        files = ", ".join(map(named, paths))
        raise InputError(f"{files}: holds no Node: expected what `kubectl get nodes,pods,namespaces -A -o yaml` prints")
    return found


def configuration(path: str | None) -> SchedulerConfiguration:
    """Read a KubeSchedulerConfiguration file; without a file, the default configuration.

    Raises InputError.
    """
    if path is None:
        return default_configuration()
    text = content(path)
    with about(named(path)):
        return decode(parse(text))


def lines(path: str) -> Iterator[bytes]:
    """The lines of a file that hold anything.

    Raises InputError.
    """
    return (line for line in content(path).splitlines() if line.strip())
