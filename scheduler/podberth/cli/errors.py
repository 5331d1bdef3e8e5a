"""Turns wrong input into one line for each problem on stderr, and an exit code.

0: fine. 1: the command found something (a pod that fits on no node). 2: wrong input, or a plugin failed. A traceback
is a bug in Berth.
"""

import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FOUND, WRONG, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
_TOLD = 100
"""Lines of wrong input that are told at once."""
_NUMBERS = {
    "Input should be a valid integer, unable to parse string as an integer": "want a whole number",
    "Input should be a valid number, unable to parse string as a number": "want a number",
    "Input should be greater than or equal to 0": "want 0 or more",
}
"""pydantic's words for what typer's options are given."""
_QUOTE = "'"
_OPTION = re.compile(r"'(-[^']*)'")
_VALUE = re.compile(r"'([^']*)'")
_TEMPLATE = re.compile(r'-o / --output: "(?:jsonpath|go-template|custom-columns|template|name"|wide")')
"""Forms that kubectl has and Berth has not: decision 35."""
_PART = "; to take a part out of the answer: -o json | jq"
_MEANT = re.compile(r"\.? (?:Did you mean ([^?]*)\?|\(Possible options: ([^)]*)\))")


class InputError(Exception):
    """Wrong input; each line of the text is a problem that names file, field and value."""


def misused(option: str, what: str) -> Exception:
    """Return what typer raises for a wrong option. typer is imported here, not when a service starts."""
    import typer

    return typer.BadParameter(what, param_hint=option)


class Faults:
    """Wrong input that is gathered, so that all of it is told at once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what is wrong with the input that is read inside the block, and go on after it."""
        try:
            yield
        except Exception as error:
            lines = _lines(error)
            if lines is None:
                raise
            self._lines += lines

    @property
    def noted(self) -> bool:
        """Return whether there is anything."""
        return bool(self._lines)

    def tell(self, most: int | None = _TOLD) -> None:
        """Raise InputError if anything was noted. `most`: lines, None where somebody else counts them."""
        told = list(dict.fromkeys(self._lines))
        more = [f"and {len(told) - most:,} more faults"] if most is not None and len(told) > most else []
        if told:
            raise InputError("\n".join([*told[:most], *more]))


@contextmanager
def about(source: str) -> Iterator[None]:
    """Put the name of a file before every problem that is raised inside the block."""
    try:
        yield
    except Exception as error:
        lines = _lines(error)
        if lines is None or isinstance(error, InputError):
            raise
        raise InputError("\n".join(f"{source}: {line}" for line in lines)) from error


def guard(command: Callable[[], int | None]) -> int:
    """Run a command and return its exit code; for wrong input, print its problems on stderr."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # as Python has it where the shell wrote >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that can't show a tick gets a question mark
    try:
        code = command() or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _mute(sys.stdout)
        return PIPE_CLOSED
    except Exception as error:
        import typer

        if isinstance(error, typer.Exit):
            return error.exit_code
        if isinstance(error, typer.Abort):
            return INTERRUPTED
        if type(error).__name__ == "NoArgsIsHelpError":  # of a group without a command; typer does not export it
            print(error)
            return 0
        lines = _lines(error)
        if lines is None:
            raise
        complain(lines)
        return WRONG


def _given(error: BaseException) -> str:
    """Return what was given instead, as far as the error or what it came from knows."""
    found: BaseException | None = error
    while found is not None:
        details = getattr(found, "errors", None)
        if callable(details):
            return f", got {json.dumps(details()[0].get('input'), default=str, ensure_ascii=False)}"
        found = found.__cause__ or found.__context__
    return ""


def complain(lines: list[str]) -> None:
    """Print problems on stderr, one line each, after the name `berth`."""
    from podberth.explain.report.wording import printable

    try:
        for line in lines:
            print(f"berth: {printable(line)}", file=sys.stderr)
        sys.stderr.flush()
    except BrokenPipeError:
        _mute(sys.stderr)


def _lines(error: Exception) -> list[str] | None:
    """Return the problems that an exception stands for; None when it is not about input."""
    if isinstance(error, _usage_error()):
        context = getattr(error, "ctx", None)
        said = _in_our_form(str(getattr(error, "format_message", error.__str__)()))
        said += _PART if _TEMPLATE.search(said) else ""
        for found, wanted in _NUMBERS.items():
            said = said.replace(found, f"{wanted}{_given(error)}")
        more = f" (see {context.command_path} --help)" if context is not None else ""
        return [f"{said[:1].lower()}{said[1:]}{more}"]
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        _mute(sys.stdout)
        return ["output: no space left on device"]
    if isinstance(error, OSError) and error.filename is not None:
        return [f"{error.filename}: {(error.strerror or type(error).__name__).lower()}"]
    if isinstance(error, RecursionError) and "deserializing" in str(error):
        return ["is nested too deep"]
    if isinstance(error, (InputError, *_rooms_errors())):
        return str(error).splitlines() or [type(error).__name__]
    return None


def _in_our_form(said: str) -> str:
    """typer's sentence in one line, with options as they are typed, and values in double quotes."""
    said = (
        " ".join(said.split()).rstrip(".").replace("Value error, ", "").replace(". Choose from:", ": expected one of")
    )
    said = _MEANT.sub(lambda found: f" (did you mean {(found[1] or found[2]).replace(_QUOTE, '')}?)", said)
    return _VALUE.sub(r'"\1"', _OPTION.sub(r"\1", said))


def _usage_error() -> type[Exception]:
    """click's own; typer brings click along under its own name, and exports only this child."""
    import typer

    return typer.BadParameter.__mro__[1]


def _rooms_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions about input. They are imported only when something went wrong."""
    from podberth.explain.objects import documents
    from podberth.explain.simulate.simulation import UndecidedError
    from podberth.framework import config
    from podberth.framework.status import PluginError
    from podberth.kube import errors as kube
    from podberth.policy import settings
    from podberth.service import serving

    undecided = (PluginError, UndecidedError)
    cluster = (kube.ConfigError, kube.ApiError, kube.Unreachable)
    given = (config.ConfigError, documents.ObjectError, serving.ServingError, settings.SettingsError)
    return (*given, *cluster, *undecided)


def _mute(stream: object) -> None:
    """Let the interpreter's last flush of a closed pipe go nowhere."""
    fileno = getattr(stream, "fileno", None)
    if fileno is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fileno())
    os.close(nowhere)
