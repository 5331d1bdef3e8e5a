"""Directories with recordings, as several commands are given them: what is wrong with one is said in a line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from podberth.cli.errors import InputError
from podberth.framework.config import ConfigError, parse_duration
from podberth.model.quantity import QuantityError, parse_quantity

if TYPE_CHECKING:
    from podberth.lab.recording.log import Limits

_LEAST = 16 << 20
"""Bytes of a recording, below which its segments are mostly what was known when they began."""


@contextmanager
def told(directory: str, option: str) -> Iterator[None]:
    """Have what is wrong with a recording, or with what this needs, be one line. `option`: which needs the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "zstandard":
            raise
        raise InputError(f"{option}: expected the extra podberth[record]: pip install 'podberth[record]'") from None
    except OSError as error:
        raise InputError(f"{directory}: {(error.strerror or str(error) or type(error).__name__).lower()}") from None
    except ConfigError as error:
        raise InputError("\n".join(f"{directory}: configuration: {line}" for line in str(error).splitlines())) from None
    except Exception as error:
        if type(error).__name__ != "LogError":  # its module needs the extra
            raise
        raise InputError(f"{directory}: {error}") from None


def to_write(directory: str) -> Path:
    """Return a directory that is empty, or has a recording already. Raises InputError, OSError."""
    from podberth.lab.recording.log import is_segment

    path = Path(directory)
    if path.exists() and not path.is_dir():
        raise InputError(f"{directory}: expected a directory")
    strange = sorted(each.name for each in path.iterdir() if not is_segment(each)) if path.exists() else []
    if strange:
        raise InputError(f"{directory}: expected an empty directory or a recording, and there is {strange[0]}")
    return path


def limits(size: str, age: str) -> "Limits":
    """Return the limits of a recording. Raises InputError."""
    from podberth.lab.recording.log import Limits

    try:
        most = parse_quantity(size).whole
    except QuantityError:
        most = 0
    if most < _LEAST:
        raise InputError(f"--record-limit: {size}: expected a size of 16Mi or more, such as 1Gi")
    seconds = parse_duration(age)
    if not seconds or seconds < 60:
        raise InputError(f"--record-age: {age}: expected a time of a minute or more, such as 24h")
    return Limits(most, seconds)
