"""The file of `berth shadow --record` and `--from`: lines of JSON, packed if its name ends in .gz."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from scheduler.cli.errors import InputError, complain
from scheduler.cli.output import private
from scheduler.whatif.documents import ObjectError
from scheduler.whatif.mask import Masks
from scheduler.whatif.shadow.record import Change, Recording, first_line, line_of, masked, objects_of, read_first
from scheduler.whatif.shadow.record import read_line as change_of

_LONGEST = 16 << 20
"""Bytes of a line. An object of the API has a tenth of that."""


class Recorder:
    """Writes what is seen, without what no decision reads.

    With masks, what is seen goes to a file beside it first, which only its owner may read, since masks sort as the
    names do and so are known at the end. It is removed then.
    """

    def __init__(self, path: str, of: str, began: float, *, mask: bool) -> None:
        self._path = path
        self._of = of
        self._began = began
        self._unmasked = f"{path}.unmasked" if mask else None
        self.lines = 0
        with _told(path):
            self._file = _opened(self._unmasked or path, packed=path.endswith(".gz"))
            self._file.write(first_line(of, began, masked=False) + b"\n")

    def write(self, change: Change) -> None:
        """One more change; what can't be read is left out, as it is of the comparison. Raises InputError."""
        with suppress(ObjectError), _told(self._path):
            self._file.write(line_of(change) + b"\n")
            self.lines += 1

    def close(self) -> None:
        """Finish the file. Raises InputError."""
        try:
            with _told(self._path):
                self._file.close()
            if self._unmasked is not None:
                masks = Masks(objects_of(line) for line in _lines(self._unmasked, self._path))
                with _told(self._path), _opened(self._path, packed=self._path.endswith(".gz")) as file:
                    file.write(first_line(self._of, self._began, masked=True) + b"\n")
                    for line in _lines(self._unmasked, self._path):
                        file.write(masked(line, masks.masked, masks.text) + b"\n")
        finally:
            if self._unmasked is not None:
                Path(self._unmasked).unlink(missing_ok=True)
        complain([f"{self._path}: {self.lines:,} changes"])


def recording(path: str) -> tuple[Recording, Iterator[Change]]:
    """What a file says of itself, and its changes as they are read. Both raise InputError."""
    with _told(path):
        lines = _all_lines(path, path)
        try:
            about = read_first(next(lines, b""))
        except ObjectError as error:
            raise InputError(f"{path}: {error}") from None
    return about, _changes(path, lines)


def _changes(path: str, lines: Iterator[bytes]) -> Iterator[Change]:
    for number, line in enumerate(lines, start=2):
        try:
            yield change_of(line)
        except ObjectError as error:
            raise InputError(f"{path}: line {number}: {error}") from None


def _lines(path: str, named: str) -> Iterator[bytes]:
    """The lines after the first."""
    lines = _all_lines(path, named)
    next(lines, None)
    return lines


def _all_lines(path: str, named: str) -> Iterator[bytes]:
    """Lines without their ends. `named`: whose ending says whether it is packed. Raises InputError."""
    try:
        with gzip.open(path) if named.endswith(".gz") else Path(path).open("rb") as file:
            first = True
            while line := file.readline(_LONGEST):
                if not (first or line.endswith(b"\n")):
                    raise InputError(f"{path}: ends within a line: the recording was cut off")
                first = False
                yield line.removesuffix(b"\n")
    except (EOFError, zlib.error):
        raise InputError(f"{path}: the recording was cut off, or is damaged") from None
    except gzip.BadGzipFile as error:
        raise InputError(f"{path}: expected a gzip file: {error}") from None


def _opened(path: str, *, packed: bool) -> BinaryIO:
    """A file for its owner alone: it holds what the owner may see of a cluster. Raises OSError, InputError."""
    file = private(path)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6)) if packed else file


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Have an OSError about a file be one line that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error) or type(error).__name__).lower()}") from None
