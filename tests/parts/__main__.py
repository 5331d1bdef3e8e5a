"""All that CI runs, in parts at the same time: `python -m tests.parts`, from the root of the repository.

Tests on real processes mostly wait, and the others compute, so both together take little longer than the longer of
them. Those that compute leave the cores to the others, so that what is timed by a real clock is not starved. They are
cut into parts of which whoever is free takes the next, the longest first, so that all cores are busy until the end.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from tests.parts.lanes import run
from tests.parts.part import Part
from tests.parts.places import END_TO_END, HOSTILE, MIDDLE, REAL, SITE, STORM, WHOLE
from tests.pythons.find import find, of_the_image, tried

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
HOMES = Path(sys.prefix) / "pythons"
"""`make clean` removes them with the virtual environment."""
LOGS = Path(sys.prefix) / "parts"
SLOW = (STORM, HOSTILE, SITE)
"""Fast tests that take minutes, and say nothing of another version that the others do not say."""
OF_THEIR_OWN = {
    "storm": (STORM,),
    "hostile objects": (HOSTILE,),
    "fast tests of the middle": MIDDLE,
    "the site": (SITE,),
}
"""Fast tests that are a part each on this version, the longest first; the others together take longer than any."""
BY_CHANCE = (
    "cache/test_random_events.py::test_columns_hold_after_any_sequence_of_events",
    "cache/test_indexes.py::test_terms",
    "engine/test_verified.py::test_decisions_on_what_is_kept_and_on_a_cluster_made_anew_agree",
    "engine/test_no_fits.py::test_whoever_waits_on_would_be_told_the_same",
    "engine/test_no_fits.py::test_whatever_happens_equal_pods_are_told_what_they_would_find",
    "engine/test_devices_at_random.py::test_what_is_kept_is_right",
    "framework/test_quick_decisions.py::test_what_is_kept_agrees_with_a_cluster_made_anew",
    *(
        "plugins/test_kept_dry_runs.py::test_kept_trials_agree",
        "plugins/test_dry_runs.py::test_what_is_kept_is_what_would_be_found_anew",
        "plugins/test_yielding.py::test_the_same_nodes_as_one_by_one",
        "plugins/test_pool_states.py::test_each_node_gets_what_its_own_search_finds",
    ),
    "policy/test_analysis_properties.py::test_two_passes",
    "policy/test_cost.py::test_nothing_found_by_climbing_costs_more",
    *(f"policy/test_order.py::test_{what}" for what in ("order_of_policies", "order_of_rules", "same_name_twice")),
    "explain/simulate/test_capacity.py::test_it_is_what_comes_true",
    "explain/objects/test_claim_templates.py::test_it_is_what_comes_true",
    "explain/gangs/test_gangs.py::test_whatever_is_offered_starts_it",
    "explain/simulate/test_removable.py::test_what_is_said_is_what_a_drain_does",
    "explain/shadow/test_shadow.py::test_each_answer_is_that_of_a_cluster_made_anew",
)
"""The dearest of tests/unit that compare two answers of ours on generated cases.

Whether both are the same is no matter of the version: one that led both ways astray fails tests beside them, which say
what the answer is.
"""
MUTANTS = ("-m", "tests.mutants", "plugins", "policy", "--sample", "80")
"""Small changes of the code that tests have to notice: a minute of CPU while the sample is known.

docs/evidence/mutants.md says more.
"""
SECOND_HALF = "n"
"""The first letter of the files that are in it, after `test_`."""
COMPUTES, LONGEST = 10, 5
"""How nice parts are that compute; the longest of them is not to be left alone on one core at the end."""
PYTEST = (sys.executable, "-m", "pytest", "-q")
MAKE = ("make", "--no-print-directory")


def of_version(version: str, interpreter: str) -> Part:
    """The fast tests on another version of Python but for the dearest, in a virtual environment of its own."""
    HOMES.mkdir(parents=True, exist_ok=True)
    make = [*MAKE, "unit", f"VENV={HOMES / version}", f"PYTHON={interpreter}"]
    without = [*ignoring(SLOW), *(f"--deselect=tests/unit/{test}" for test in BY_CHANCE)]
    env = os.environ | {"PYTEST_ADDOPTS": " ".join(without)}
    return Part(f"fast tests on Python {version}", make, LOGS / f"{version}.log", niceness=LONGEST, env=env)


def on_this_version() -> Iterator[Part]:
    """The fast tests, the longest part first, and what notices mutants."""
    parts = {"other fast tests": ignoring(folder for folders in OF_THEIR_OWN.values() for folder in folders)}
    parts |= {name: [str(folder) for folder in folders] for name, folders in OF_THEIR_OWN.items()}
    for name, which in parts.items():
        log = LOGS / f"{name.replace(' ', '-')}.log"
        yield Part(name, [*PYTEST, "-m", "not real", *which], log, niceness=COMPUTES)
    yield Part("a sample of mutants", [sys.executable, *MUTANTS], LOGS / "mutants.log", niceness=COMPUTES)


def ignoring(folders: Iterable[PurePath]) -> list[str]:
    """Options of pytest."""
    return [f"--ignore={folder}" for folder in folders]


def outermost(versions: Iterable[str], own: str = OWN) -> list[str]:
    """The oldest and the newest of these versions and this one, without this one.

    What runs on both hardly fails on one between them, and each costs as much as all other fast tests.
    """
    ordered = sorted({*versions, own}, key=lambda version: int(version.removeprefix("3.")))
    return [version for version in ordered if version in (ordered[0], ordered[-1]) and version != own]


def halves(files: Sequence[Path]) -> Iterator[tuple[str, list[Path]]]:
    """(which half, its files)."""
    yield "first", [file for file in files if file.name < f"test_{SECOND_HALF}"]
    yield "second", [file for file in files if file.name >= f"test_{SECOND_HALF}"]


def say(text: str) -> None:
    """A line, at once."""
    print(text, flush=True)


def main() -> int:
    """Run all parts; the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    here = {version: place for version in tried() if (place := find(version)) is not None}
    others = outermost(here)
    check = Part("lint, types and layers", [*MAKE, "check"], LOGS / "check.log", niceness=COMPUTES, gate=True)
    first, second = (
        Part(f"tests of the whole, {half} half", [*PYTEST, "-m", "real", *files], LOGS / f"{half}.log")
        for half, files in halves(sorted(Path(WHOLE).glob("test_*.py")))
    )
    alone = Part("other tests on real processes", [*PYTEST, "-m", "real", *map(str, REAL)], LOGS / "alone.log")
    kubernetes = Part("Kubernetes' end-to-end tests", [*PYTEST, "-m", "real", str(END_TO_END)], LOGS / "e2e.log")
    versions = [of_version(version, here[version]) for version in others]
    # A lane that is free takes the next of the others, so at the end four of them share the cores.
    failed = run([[first], [second, alone], [check], [kubernetes]], say, [*versions, *on_this_version()])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes, cpu = (time.monotonic() - began) / 60, (used.ru_utime + used.ru_stime) / 60
    say(f"\n{'Something failed' if failed else 'All passed'}: {minutes:.0f} min, {cpu:.0f} min of CPU.")
    ran = [f"all tests on Python {OWN}", *(version.name for version in versions)]
    say(f"Ran {', '.join(ran)}. What each part printed is in {LOGS}.")
    between = [version for version in here if version not in (OWN, *others)]
    if between:
        say(f"Between those, and so left out: Python {', '.join(between)} (make unit PYTHON=python{between[0]}).")
    lacking = [version for version in tried() if version not in (OWN, *here)]
    if lacking:
        image = f" The image runs {of_the_image()}." if of_the_image() in lacking else ""
        say(f"Not here, and so not tested: Python {', '.join(lacking)}.{image}")
    for part in failed:
        say("\n".join(f"FAILED {failure}" for failure in part.failures))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
