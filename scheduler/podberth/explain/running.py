"""Which schedulers somebody runs, as far as placed pods show, and which of them a pod could name instead of its own."""

from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from podberth.framework.runtime import Framework
from podberth.model.pod import Pod

_ALWAYS = "default-scheduler"
"""Every cluster has it."""


def running(placed: Iterable[Pod]) -> Counter[str]:
    """Scheduler → how many of the placed pods name it."""
    found = Counter({_ALWAYS: 0})
    found.update(pod.scheduler_name for pod in placed)
    return found


def instead_of(name: str, profiles: Iterable[str], ran: Mapping[str, int]) -> list[str]:
    """Schedulers that a pod could name, if nobody seems to run the one that it names; else none.

    The one that was perhaps meant comes first, then those that placed most. `profiles`: of the configuration.
    """
    known = {*profiles, *ran} - {""}
    if not name or name in known:
        return []
    ordered = sorted(known, key=lambda each: (-ran.get(each, 0), each))
    return list(dict.fromkeys([*get_close_matches(name, ordered, n=1), *ordered]))


def seen_by(pod: Pod, frameworks: Mapping[str, Framework], ran: Mapping[str, int]) -> tuple[Framework, list[str]]:
    """The framework by which a pod is looked at, and the schedulers of this view that it could name instead of its own.

    That is the profile that the pod names, else the one that it could name, else the first.
    """
    usual = next(iter(frameworks.values()))
    names = instead_of(pod.scheduler_name, frameworks, ran)
    found = frameworks.get(names[0] if names else pod.scheduler_name, usual)
    return found, [name for name in names if frameworks.get(name, usual) is found]
