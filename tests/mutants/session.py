"""A pytest session that is collected once and forks: once to learn which tests run which lines, then for each mutant.

A child of a warm process needs no imports and no collection. It puts the mutant's code into the functions that are
there, runs the tests that run the changed line, and ends with the first that fails.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import itertools
import math
import operator
import os
import pickle
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.mutations import Mutant, compiled, replaced

OPTIONS = ("-q", "-p", "no:cacheprovider", "--capture=no", "--randomly-seed=1", "--randomly-dont-reorganize")
LONGEST = 2.0
"""Seconds of CPU that a test may take to be run on mutants."""
PATIENCE = 6.0
"""Seconds of CPU that the one test may take which is known to notice a mutant."""
BUDGET = 5.0
"""Seconds that the tests of one mutant may take where the code is right; those that take longest are left out."""
EXAMPLES = 15
"""Generated examples of a test that are asked about a mutant: the first of those that the test has without one."""
_SETTINGS = "_hypothesis_internal_use_settings"
MEMORY = 4 << 30


class Covered(NamedTuple):
    """What tests run, by the number of the test."""

    seconds: list[float]
    lines: dict[tuple[str, int], int] | None
    """(file, line) → its tests, as bits; None: it is not known, and every test counts for every line."""

    def tests(self, path: str, lines: Iterable[int], budget: float, far: Callable[[int], int]) -> list[int]:
        """The tests that run any of these lines, while there is time: those nearby first, then the quickest."""
        bits = -1
        if self.lines is not None:
            bits = functools.reduce(operator.or_, (self.lines.get((path, line), 0) for line in lines))
        found = [n for n, seconds in enumerate(self.seconds) if bits >> n & 1 and seconds <= LONGEST]
        found.sort(key=lambda n: (far(n), self.seconds[n]))
        spent = itertools.accumulate(self.seconds[n] for n in found)
        return [n for n, so_far in zip(found, spent, strict=True) if so_far <= budget]


class Functions:
    """The functions there are of some modules: (their files or folders)."""

    def __init__(self, source: tuple[str, ...]) -> None:
        self._found = defaultdict[tuple[str, str, int], list[FunctionType]](list)
        gc.unfreeze()  # what tests/conftest.py froze is not listed
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename.startswith(source):
                self._found[_place(found.__code__)].append(found)
        gc.freeze()

    def codes(self) -> Iterator[CodeType]:
        """The code of each, and of what is defined within it."""
        left = [found.__code__ for functions in self._found.values() for found in functions]
        while left:
            code = left.pop()
            yield code
            left += [const for const in code.co_consts if isinstance(const, CodeType)]

    def change(self, changed: Iterable[tuple[CodeType, CodeType]]) -> None:
        """Give them other code: (old, new)."""
        for old, new in changed:
            for function in self._found.get(_place(old), ()):
                if function.__code__ == old:
                    function.__code__ = new


class Lines:
    """Notes which lines of some modules are run."""

    known = hasattr(sys, "monitoring")
    """Python 3.11 can't say: there, every test counts for every line."""

    def __init__(self, source: tuple[str, ...]) -> None:
        self._hits = set[tuple[str, int]]()
        self._watch = getattr(sys, "monitoring", None)
        if self._watch is not None:
            self._done = self._watch.DISABLE
            self._watch.use_tool_id(self._watch.COVERAGE_ID, "mutants")
            self._watch.register_callback(self._watch.COVERAGE_ID, self._watch.events.LINE, self._note)
            # Of nothing but these: pytest's lines and those of libraries would cost more than all tests.
            for code in Functions(source).codes():
                self._watch.set_local_events(self._watch.COVERAGE_ID, code, self._watch.events.LINE)

    def since(self) -> set[tuple[str, int]]:
        """(file, line) that were run since this was asked last."""
        found, self._hits = self._hits, set()
        if self._watch is not None:
            self._watch.restart_events()
        return found

    def end(self) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.register_callback(self._watch.COVERAGE_ID, self._watch.events.LINE, None)
            self._watch.free_tool_id(self._watch.COVERAGE_ID)

    def _note(self, code: CodeType, line: int) -> object:
        self._hits.add((code.co_filename, line))
        return self._done


def in_child(work: Callable[[], Any], seconds: float | None = None) -> tuple[int, bytes]:
    """How a child ended, and what it came to, pickled. Without output, and within limits."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            if seconds is not None:
                os.dup2(nowhere, 2)
                limit = int(seconds) + 1
                signal.signal(signal.SIGXCPU, _too_long)
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 2))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            with os.fdopen(write, "wb") as out:
                out.write(pickle.dumps(work()))
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (a child says why it ends, and never returns)
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as out:
        said = out.read()
    return os.waitpid(pid, 0)[1], said


class Warm:
    """The session that is collected, and what is learned from its tests."""

    def __init__(self, items: Sequence[pytest.Item], source: Path, changing: Sequence[Path], maps: Path) -> None:
        self._items = items
        self._numbers = {item.nodeid: n for n, item in enumerate(items)}
        self._source = f"{source}{os.sep}"
        self._maps = maps
        self._changing = tuple(map(str, changing))
        self._functions = Functions(self._changing)
        self._killers = defaultdict[str, list[int]](list)

    @cached_property
    def covered(self) -> Covered:
        """The maps of all tests in one. Each file of tests has its own, which is kept until it or the code changes."""
        code = hashlib.sha256(b"".join(Path(file).read_bytes() for file in self._changing))
        tests = dict[Path, list[int]]()
        for path, together in itertools.groupby(range(len(self._items)), lambda n: self._items[n].path):
            digest = code.copy()
            digest.update(path.read_bytes())
            tests[self._maps / f"{path.stem}-{digest.hexdigest()}.map"] = [*together]
        if missing := [kept for kept in tests if not kept.exists()]:
            self._maps.mkdir(exist_ok=True)
            in_child(lambda: self._learn({kept: tests[kept] for kept in missing}))
        seconds, lines = list[float](), defaultdict[tuple[str, int], int](int)
        for kept in tests:
            one: Covered = pickle.loads(kept.read_bytes())
            for hit, bits in (one.lines or {}).items():
                lines[hit] |= bits << len(seconds)
            seconds += one.seconds
        return Covered(seconds, dict(lines) if Lines.known else None)

    def killer(self, mutant: Mutant, source: str, test: str = "", budget: float = BUDGET) -> str | None:
        """The test that fails with the mutant, or what else ended it; None if it survives.

        `test`: only this one is asked, and no map is needed.

        Raises ValueError if the mutant can't be put into functions that are there, as they close over other names.
        """
        path = self._source + mutant.path
        if test:
            order, seconds = [self._numbers[test]] if test in self._numbers else [], PATIENCE
        else:
            lines = range(mutant.line, mutant.last + 1)
            tests = self.covered.tests(path, lines, budget, functools.partial(self._far, Path(mutant.path)))
            first = [n for n in self._killers[mutant.path] if n in tests]
            order = first + [n for n in tests if n not in first]
            seconds = 1 + 10 * sum(self.covered.seconds[n] for n in order)
        changed = [*replaced(compiled(source, path, None), compiled(source, path, mutant))]
        status, said = in_child(lambda: self._first_failure(changed, order), seconds)
        if os.WIFSIGNALED(status):
            return f"ended by signal {os.WTERMSIG(status)}"
        if os.WEXITSTATUS(status):
            raise ValueError(f"{mutant.name}: not judged, a child ended with code {os.WEXITSTATUS(status)}")
        failed: int | None = pickle.loads(said)
        if failed is None:
            return None
        self._killers[mutant.path] = [failed, *(n for n in self._killers[mutant.path] if n != failed)][:10]
        return self._items[failed].nodeid

    def _far(self, mutated: Path, n: int) -> int:
        """Return 0 for a test of that very file, 1 for one of its package's unit tests, 2 for others."""
        test = self._items[n].path
        return 0 if mutated.stem in test.stem else 1 if f"/unit/{mutated.parts[0]}/" in str(test) else 2

    def _first_failure(self, changed: Sequence[tuple[CodeType, CodeType]], order: Sequence[int]) -> int | None:
        self._functions.change(changed)
        return next((n for n, fails in self._run(order) if fails), None)

    def _run(self, order: Sequence[int]) -> Iterator[tuple[int, bool]]:
        """Run these tests, one after the other: (its number, whether it fails)."""
        for n, then in zip(order, [*order[1:], None], strict=False):
            item = self._items[n]
            reports = runtestprotocol(item, log=False, nextitem=None if then is None else self._items[then])
            yield n, any(report.failed for report in reports)

    def _learn(self, tests: Mapping[Path, Sequence[int]]) -> None:
        """Run these tests once and note the seconds and lines: file of the map → its tests."""
        watched = Lines(self._changing)
        signal.signal(signal.SIGPROF, _too_long)
        for kept, order in tests.items():
            seconds, lines = list[float](), defaultdict[tuple[str, int], int](int)
            began = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, LONGEST)
            for n, (_, fails) in enumerate(self._run(order)):
                # One that fails without any change, or takes too long, says nothing of a mutant.
                seconds.append(math.inf if fails else time.process_time() - began)
                for hit in watched.since():
                    lines[hit] |= 1 << n
                began = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, LONGEST)
            signal.setitimer(signal.ITIMER_PROF, 0)
            kept.write_bytes(pickle.dumps(Covered(seconds, dict(lines))))


class Session:
    """The plugin: tests are collected, and instead of running them, `work` is done."""

    def __init__(self, work: Callable[[Warm], None], source: Path, changing: Sequence[Path], maps: Path) -> None:
        self._work = work
        self._source = source
        self._changing = changing
        self._maps = maps

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Generated cases are the same each time, and nobody needs the smallest one that fails."""
        from hypothesis import Phase, settings  # not before pytest, which wants to rewrite what plugins assert

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", settings.default, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """A hundred examples would take too long, and none of them would be asked."""
        from hypothesis import is_hypothesis_test, settings

        for item in items:
            test = getattr(item, "obj", None)
            if is_hypothesis_test(test):
                known = getattr(test, _SETTINGS)
                setattr(test, _SETTINGS, settings(known, max_examples=min(known.max_examples, EXAMPLES)))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Nothing else is run."""
        if session.testsfailed:
            raise session.Failed("tests can't be collected")
        for file in self._changing:  # some are imported when they are needed, which is too late to be changed
            importlib.import_module(
                ".".join(file.relative_to(self._source.parent).with_suffix("").parts).removesuffix(".__init__")
            )
        self._work(Warm(session.items, self._source, self._changing, self._maps))
        return True


def run(tests: Iterable[str], source: Path, changing: Sequence[Path], maps: Path, work: Callable[[Warm], None]) -> None:
    """Collect the fast tests of these places and do the work.

    `changing`: the files below `source` of which there are mutants; `maps`: where maps are kept.

    Raises ValueError if pytest can't.
    """
    code = pytest.main([*OPTIONS, "-m", "not real", *tests], plugins=[Session(work, source, changing, maps)])
    if code:
        raise ValueError(f"pytest ended with {code}")


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError("the test takes too long to be run on mutants")
