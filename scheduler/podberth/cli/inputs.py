"""Files that commands read: dumps of a cluster, pods, configurations. Every complaint names the file."""

import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from podberth.cli.errors import Faults, InputError, about, complain
from podberth.explain.objects.documents import GZIP, Document, ObjectError, parse, readable, unpacked
from podberth.explain.report.wording import printable
from podberth.framework.config import SchedulerConfiguration, decode, default_configuration

if TYPE_CHECKING:
    from podberth.explain.objects.world import World
    from podberth.framework.runtime import Framework
    from podberth.model.kinds import Decoder

STDIN = "-"
_ELSEWHERE = ("http://", "https://")
_taken: list[TextIO] = []
"""The standard input that somebody has read."""
LARGE = 4 << 20
"""YAML of this size is read for seconds."""
MOST_LINES = 500_000
"""Lines that are answered one by one."""
_ENDING = re.compile(r"\.(?:json|ya?ml)(?:\.gz)?$")


def content(path: str) -> bytes:
    """Return the bytes of a file, unpacked when they are packed or its name ends in .gz; `-` is standard input.

    Raises InputError.
    """
    if path == STDIN:
        raw = standard_input().read()
    else:
        try:
            with opened(path) as file:
                raw = file.read()
        except OSError as error:
            raise InputError(f"{named(path)}: {(error.strerror or type(error).__name__).lower()}") from None
        except ValueError:
            raise InputError(f"{path}: expected the name of a file") from None
    with about(named(path)):
        return unpacked(raw) if path.endswith(".gz") or raw.startswith(GZIP) else raw


def standard_input() -> BinaryIO:
    """Return what `-` stands for, for one reader: there is nothing left for a second. Raises InputError."""
    if sys.stdin is None:  # as Python has it where the shell wrote <&-
        raise InputError(f"{named(STDIN)}: is closed")
    if _taken[-1:] == [sys.stdin]:
        raise InputError(f"{named(STDIN)}: is given for two things, and can be read once")
    _taken[:] = [sys.stdin]
    return sys.stdin.buffer


def opened(path: str) -> BinaryIO:
    """Return a file, or a pipe, to read piece by piece. Raises OSError, InputError."""
    if path.startswith(_ELSEWHERE):
        raise InputError(f"{path}: expected a file, got an address: curl gets it, and - stands for standard input")
    mode = Path(path).stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InputError(f"{path}: expected a file, got a device")
    return Path(path).open("rb")


def named(path: str) -> str:
    """Return the name of a file in messages, on one line."""
    return "standard input" if path == STDIN else printable(path)


def documents(path: str) -> list[Document]:
    """Return the API objects of a file.

    Raises InputError.
    """
    faults = Faults()
    held = documents_of(path, faults)
    faults.tell(most=None)
    return held


def documents_of(path: str, faults: Faults) -> list[Document]:
    """Return the API objects of a file that can be read; `faults` gets what is wrong with the others.

    Of a directory (`kubectl cluster-info dump --output-directory`, a must-gather), those of the files in it.
    """
    held: list[Document] = []
    if path != STDIN and Path(path).is_dir():
        with faults.noting():
            for file in _files(path):
                held += _in_directory(file, faults)
        return held
    with faults.noting(), about(named(path)):
        text = content(path)
        if len(text) > LARGE and text.lstrip()[:1] not in (b"{", b"["):
            complain(
                [f"{named(path)}: {len(text) >> 20} MB of YAML takes a while; JSON (kubectl get -o json) does not"]
            )
        held, wrong = readable(text)
        if wrong:
            raise ObjectError("\n".join(wrong))
    return held


def _files(path: str) -> list[str]:
    """Return the files of JSON and YAML in a directory and below. Raises InputError."""
    found = [str(each) for each in sorted(Path(path).rglob("*")) if _ENDING.search(each.name) and each.is_file()]
    if not found:
        raise InputError(f"{path}: is a directory without files of JSON or YAML: expected a cluster's dump")
    return found


def _in_directory(path: str, faults: Faults) -> list[Document]:
    """Return the API objects of one of many files. One that holds none, as many do in a must-gather, is passed over."""
    own = Faults()
    held = documents_of(path, own)
    with (faults if held else Faults()).noting():
        try:
            own.tell()
        except InputError as error:
            if not held:
                complain([f"passed over: {str(error).splitlines()[0]}"])
            raise
    return held


def judged(path: str, *, types_only: bool = False, comparing: bool = False) -> list[Document]:
    """Return the API objects of a file, where the API server would take them all. `comparing`: as for `judge`;
    `types_only`: where it could read them, whatever it would say.

    Raises InputError with a line for everything that is wrong.
    """
    from podberth.explain.judging.judge import judge, mistyped  # dumps are not judged

    faults = Faults()
    held = documents_of(path, faults)
    for document in held:
        with faults.noting(), about(named(path)):
            wrong = mistyped(document) if types_only else judge(document, comparing=comparing)
            if wrong:
                raise ObjectError("\n".join(wrong))
    faults.tell(most=None)
    return held


def world(paths: list[str], decoder: "Decoder | None" = None) -> "World":
    """Return a cluster from the files of a dump.

    Raises InputError.
    """
    from podberth.explain.objects.world import World  # `berth run` reads a configuration only

    found = World(decoder)
    found.dump = True
    faults = Faults()
    for path in paths:
        held = documents_of(path, faults)
        with faults.noting(), about(named(path)):
            found.add_documents(held, named(path))
    faults.tell(most=None)
    if not found.cluster.nodes.count:
        files = ", ".join(map(named, paths))
        raise InputError(f"{files}: holds no Node: expected what `kubectl get nodes,pods,namespaces -A -o json` prints")
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


def profiles(path: str | None, wanted: str | None = None) -> "tuple[SchedulerConfiguration, dict[str, Framework]]":
    """Return a configuration, and what each of its profiles decides by.

    Raises InputError, also if no profile is called `wanted`.
    """
    settings = configuration(path)
    frameworks = frameworks_of(settings, path)
    if wanted is not None and wanted not in frameworks:
        from podberth.explain.judging.schema import shown

        raise InputError(f"--scheduler: {shown(wanted)}: expected one of the profiles {', '.join(frameworks)}")
    return settings, frameworks


def frameworks_of(settings: SchedulerConfiguration, path: str | None) -> "dict[str, Framework]":
    """Return what each profile of a configuration decides by. `path`: of its file. Raises InputError."""
    from podberth.framework.profiles import build  # most commands that read files decide nothing
    from podberth.plugins.registry import registry

    with about(named(path) if path else "configuration"):
        return build(settings, registry())


def unfetched(frameworks: Mapping[str, "Framework"]) -> list[str]:
    """Return which sources of plugins have no value here, where nothing is fetched, and what counts instead."""
    from podberth.framework.status import shown

    sources = {key: one for framework in frameworks.values() for key, one in framework.profile.sources.items()}
    return [
        f"source {name} of plugin {plugin} is not fetched here, its default counts: {shown(one.default)}"
        for (plugin, name), one in sources.items()
    ]


def unasked(settings: SchedulerConfiguration) -> list[str]:
    """Return a note on the HTTP extenders of a configuration, which are not asked here."""
    if not settings.extenders:
        return []
    addresses = ", ".join(extender.url_prefix for extender in settings.extenders)
    return [f"HTTP extenders are not asked here, and may reject nodes or change scores: {addresses}"]


def lines(path: str) -> Iterator[bytes]:
    """Return the lines of a file that hold anything.

    Raises InputError.
    """
    found = [line for line in content(path).splitlines() if line.strip()]
    if len(found) > MOST_LINES:
        raise InputError(f"{named(path)}: expected at most {MOST_LINES:,} lines, got {len(found):,}")
    return iter(found)
