"""The file of `berth shadow --record` and `--from`: lines of JSON, packed if its name ends in .gz."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, RawIOBase
from itertools import count
from pathlib import Path
from typing import BinaryIO, cast

from podberth.cli.errors import InputError, complain
from podberth.cli.inputs import GZIP, MOST_LINES, STDIN, named, opened, standard_input
from podberth.cli.output import private, replaceable
from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.dump import Masks
from podberth.explain.shadow.record import Change, Recording, first_line, line_of, masked, objects_of, read_first
from podberth.explain.shadow.record import read_line as change_of

_LONGEST = 16 << 20
"""Bytes of a line. An object of the API has a tenth of that."""
_NOTHING = "nothing was written: the cluster was not listed"


class Recorder:
    """Writes what is seen, without what no decision reads.

    It goes to a file beside the one that is asked for, and takes its place at the end if the cluster was listed: so an
    older recording is there until there is a newer one. Masks sort as the names do and so are known at the end; then
    all is written a second time. Only their owner may read these files.
    """

    def __init__(self, path: str, of: str, began: float, *, mask: bool) -> None:
        self._path = path
        self._of = of
        self._began = began
        self._mask = mask
        self._packed = path.endswith(".gz")
        self._listed = False
        self.lines = 0
        with _told(path):
            self._target = replaceable(path)
            self._seen = f"{self._target}.{'unmasked' if mask else 'part'}"
            self._file = _opened(self._seen, packed=self._packed)
            self._file.write(first_line(of, began, masked=False) + b"\n")

    def write(self, change: Change) -> None:
        """One more change; what can't be read is left out, as it is of the comparison. Raises InputError."""
        with suppress(ObjectError), _told(self._path):
            line = line_of(change)
            self._listed, listed = False, self._listed or change.synced
            self._file.write(line + b"\n")
            self._listed = listed
            self.lines += 1

    def close(self) -> None:
        """Finish the file. Raises InputError."""
        written = [self._seen]
        try:
            with _told(self._path):
                self._file.close()
                if self._listed and self._mask:
                    written.append(f"{self._target}.part")
                    self._write_masked(written[-1])
                if self._listed:
                    Path(written[-1]).replace(self._target)
        finally:
            for each in written:
                Path(each).unlink(missing_ok=True)
        complain([f"{self._path}: {f'{self.lines:,} changes' if self._listed else _NOTHING}"])

    def _write_masked(self, path: str) -> None:
        masks = Masks(objects_of(line) for line in self._lines())
        with _opened(path, packed=self._packed) as file:
            file.write(first_line(self._of, self._began, masked=True) + b"\n")
            for line in self._lines():
                file.write(masked(line, masks.masked, masks.text) + b"\n")

    def _lines(self) -> Iterator[bytes]:
        """The lines after the first."""
        with Path(self._seen).open("rb") as file:
            lines = _all_lines(file, self._path)
            next(lines, None)
            yield from lines


def recording(path: str) -> tuple[Recording, Iterator[Change]]:
    """Return what a file says of itself, and its changes as they are read; - is standard input.
    Both raise InputError.
    """
    with _told(named(path)):
        lines = _all_lines(standard_input() if path == STDIN else opened(path), named(path))
        try:
            about = read_first(next(lines, b""))
        except ObjectError as error:
            raise InputError(f"{named(path)}: {error}") from None
    return about, _changes(named(path), lines)


def _changes(path: str, lines: Iterator[bytes]) -> Iterator[Change]:
    for number, line in enumerate(lines, start=2):
        try:
            yield change_of(line)
        except ObjectError as error:
            raise InputError(f"{path}: line {number}: {error}") from None


def _all_lines(raw: BinaryIO, path: str) -> Iterator[bytes]:
    """Lines without their ends, unpacked if they are packed. `path`: in messages. Raises InputError."""
    buffered = _Counted(cast(RawIOBase, raw))
    packed = path.endswith(".gz") or buffered.peek(len(GZIP)).startswith(GZIP)
    try:
        with buffered, cast(BinaryIO, gzip.open(buffered)) if packed else buffered as file:
            first = True
            for number in count():
                line = file.readline(_LONGEST)
                if not line:
                    return
                if packed and number > MOST_LINES and number > buffered.taken:
                    raise InputError(f"{path}: unpacks to more than {MOST_LINES:,} lines, of less than a byte each")
                if not (first or line.endswith(b"\n")):
                    raise InputError(f"{path}: ends within a line: the recording was cut off")
                first = False
                yield line.removesuffix(b"\n")
    except (EOFError, zlib.error):
        raise InputError(f"{path}: the recording was cut off, or is damaged") from None
    except gzip.BadGzipFile as error:
        raise InputError(f"{path}: expected a gzip file: {error}") from None


class _Counted(BufferedReader):
    """Counts the bytes that were read."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.taken += len(found)
        return found


class _Packed(gzip.GzipFile):
    """Closes its file too, so that a full disk is told."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="wb", compresslevel=6)
        self._packed = file

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._packed.close()


def _opened(path: str, *, packed: bool) -> BinaryIO:
    """A file for its owner alone: it holds what the owner may see of a cluster. Raises OSError, InputError."""
    file = private(path)
    return cast(BinaryIO, _Packed(file)) if packed else file


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Have an OSError about a file be one line that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error) or type(error).__name__).lower()}") from None
