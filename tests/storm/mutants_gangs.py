"""Bugs put into what starts gangs; `mutants` says how, and what for."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from podberth.cache.groups import PodGroups
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.pod_groups import cycle
from podberth.engine.pod_groups.attempt import GroupAttempt, Turns
from podberth.engine.pod_groups.ending import Endings
from podberth.engine.pod_groups.gathering import Gathering
from podberth.model.pod_group import GroupKey
from tests.storm.mutants import mutant
from tests.storm.mutants_devices import MUTANTS, named

__all__ = ["MUTANTS", "named"]


@mutant("of a gang that does not fit, the part that fits is bound")
def binds_the_part_that_fits() -> Iterator[None]:
    with (
        patch.object(cycle, "unsatisfied", lambda *_: ""),
        patch.object(Gathering, "_enough", lambda *_: True),
    ):
        yield


@mutant("a gang that does not fit keeps what it has assumed")
def keeps_what_it_holds() -> Iterator[None]:
    def careless(self: Endings, attempt: GroupAttempt, *, untold: bool = False, again: bool = False) -> Turns[None]:
        yield from ()

    with patch.object(Endings, "give_back", careless):
        yield


@mutant("pods of a gang that run already do not count")
def forgets_who_runs() -> Iterator[None]:
    def forgetful(self: PodGroups, key: GroupKey) -> int:
        state = self.state(key)
        return 0 if state is None else len(state.assumed)

    with patch.object(PodGroups, "scheduled", forgetful):
        yield


@mutant("pods wait for the others of their gang for ever")
def waits_for_the_others() -> Iterator[None]:
    with patch.object(BindingCycles, "_give_up", lambda *_: None):
        yield
