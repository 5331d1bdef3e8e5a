"""The search: Optuna proposes, workers measure, a study file remembers.

Trial k is proposed when all trials up to k - `at_once` are known, whoever is faster, by a sampler whose seed follows
from k. So a search is the same on any number of workers, and the same if it was interrupted: what it proposes next
follows from the study file alone.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import RandomSampler, TPESampler
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import Trial, TrialState, create_trial

from podberth import __version__
from podberth.explain.objects.documents import ObjectError
from podberth.lab.tune.goals import Bound, Goal
from podberth.lab.tune.space import Setting, Space, Value, Values, packed
from podberth.lab.tune.trial import Course, Task, means
from podberth.lab.tune.workers import Workers

_BEGIN = 20
"""The number of trials whose results are known before the sampler learns from them; until then it draws at random."""
_NAME, _ASKED, _MEASURED = "berth tune", "asked", "measured"

Progress = Callable[[int, int], None]
"""Is told the number of trials that are done, and of all."""


class Candidate(msgspec.Struct, frozen=True):
    """A trial: its number, its settings, and the mean of each goal over the training periods."""

    number: int
    values: dict[str, Value]
    measured: dict[str, float]


class Search:
    """A study of one course, space and set of goals; it goes on where it ended.

    Optuna's sampler works on a study in memory. The file has each trial as a whole or not at all.
    """

    def __init__(
        self,
        course: Course,
        space: Space,
        goals: Sequence[Goal],
        bounds: Sequence[Bound] = (),
        *,
        file: Path | None = None,
        seed: int = 0,
        at_once: int = 16,
    ) -> None:
        """`file`: where it is kept, as a journal of Optuna's. `at_once`: trials that are under way at once; the sampler
        knows the results of all others. Raises ObjectError if the file is of another search.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._course, self._space, self._seed, self._at_once = course, space, seed, at_once
        self._goals, self._bounds = tuple(goals), tuple(bounds)
        self._distributions = {each.name: _distribution(each) for each in space.settings}
        directions = [StudyDirection.MAXIMIZE if each.more_is_better else StudyDirection.MINIMIZE for each in goals]
        self._study = optuna.create_study(directions=directions)
        self._trials: list[Trial] = []
        self.done: list[Candidate] = []
        """The trials whose results are known, by number."""
        try:
            self._kept = _Kept(file, directions, self._asked())
            known = self._kept.trials()
        except (LookupError, TypeError, ValueError) as error:
            raise ObjectError(f"--study: {file}: expected a file that berth tune has made: {error}") from None
        for values, measured in known:
            self._take(values)
            if measured is not None:
                self._tell(len(self.done), measured)

    def _asked(self) -> str:
        """Return a text that differs if the results of a trial or the proposals would."""
        settings = [str(each) for each in (*self._goals, *self._bounds, *self._space.settings)]
        base = packed(self._space.base).decode()
        search = (self._course, settings, base, self._space.profile, self._seed, self._at_once)
        what = msgspec.msgpack.encode((__version__, *search))
        return hashlib.sha256(what).hexdigest()

    def go_on(self, workers: Workers, trials: int, progress: Progress) -> None:
        """Carry out trials until there are as many as this. Ends early by KeyboardInterrupt, and nothing is lost."""
        under_way = deque(self._begun(trial, workers) for trial in self._trials[len(self.done) : trials])
        while len(self.done) < trials:
            progress(len(self.done), trials)
            while len(self._trials) < min(trials, len(self.done) + self._at_once):
                under_way.append(self._begun(self._proposed(), workers))
            measured = means([workers.answer(handle) for handle in under_way.popleft()])
            self._kept.tell(len(self.done), [measured[str(goal)] for goal in self._goals], measured)
            self._tell(len(self.done), measured)
        progress(len(self.done), trials)

    def _begun(self, trial: Trial, workers: Workers) -> list[Any]:
        """Begin the runs of a trial: one for each training period, all with one seed, so that luck is the same."""
        configuration = packed(self._space.configuration(trial.params))
        training = [i for i, period in enumerate(self._course.periods) if not period.held_out]
        return [workers.submit(Task(configuration, period, self._seed)) for period in training]

    def _proposed(self) -> Trial:
        """Return the next trial: the base first, then what the sampler proposes from what is known."""
        number = len(self._trials)
        if number == 0:
            trial = self._take(self._space.begin())
        else:
            digest = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
            self._study.sampler = TPESampler(
                n_startup_trials=_BEGIN, multivariate=True, seed=int.from_bytes(digest[:4], "big")
            )
            trial = self._study.ask(self._distributions)
            self._trials.append(trial)
        self._kept.begin(trial.params, self._distributions)
        return trial

    def _take(self, values: Values) -> Trial:
        """Add a trial whose settings are known."""
        self._study.sampler = RandomSampler(seed=0)
        self._study.enqueue_trial(dict(values))
        trial = self._study.ask(self._distributions)
        self._trials.append(trial)
        return trial

    def _tell(self, number: int, measured: Mapping[str, float]) -> None:
        trial = self._trials[number]
        for bound in self._bounds:
            trial.set_constraint(str(bound), bound.missed(measured))
        self._study.tell(trial, [measured[str(goal)] for goal in self._goals])
        self.done.append(Candidate(number, dict(trial.params), dict(measured)))

    def front(self) -> list[Candidate]:
        """Return the trials that keep to all bounds and that no other such trial beats in every goal, the best in the
        first goal first.

        Of trials with equal results, the first. If none keeps to the bounds, those that miss them by the least.
        """
        missed = {
            each.number: sum(max(bound.missed(each.measured), 0.0) for bound in self._bounds) for each in self.done
        }
        least = min(missed.values(), default=0.0)
        kept = [each for each in self.done if missed[each.number] <= least]
        found = [each for each in kept if not any(self._beats(other, each) for other in kept)]
        first = self._goals[0]
        return sorted(found, key=lambda each: first.better(0.0, each.measured[str(first)]))

    def _beats(self, one: Candidate, other: Candidate) -> bool:
        """Return whether a trial is better in one goal and not worse in any, or as good and earlier."""
        by = [goal.better(one.measured[str(goal)], other.measured[str(goal)]) for goal in self._goals]
        return min(by) >= 0 and (max(by) > 0 or one.number < other.number)

    def chosen(self, front: Sequence[Candidate]) -> Candidate:
        """Return the trial of the front that is nearest to the best of all goals.

        Distances count in parts of the way from the base, or from the worst of the front if that is worse, to the best.
        """
        measured = [each.measured for each in front]

        def behind(goal: Goal, values: Mapping[str, float]) -> float:
            return max(goal.better(best[str(goal)], values[str(goal)]) for best in measured)

        span = {goal: max(behind(goal, each) for each in (self.done[0].measured, *measured)) for goal in self._goals}

        def distance(candidate: Candidate) -> float:
            return sum((behind(goal, candidate.measured) / span[goal]) ** 2 for goal in self._goals if span[goal] > 0)

        return min(front, key=lambda each: (distance(each), each.number))


def _distribution(setting: Setting) -> BaseDistribution:
    if setting.choices:
        return CategoricalDistribution(setting.choices)
    return IntDistribution(setting.low, setting.high)


class _Kept:
    """The file of a study: each trial with its settings, and once they are known, its results."""

    def __init__(self, file: Path | None, directions: Sequence[StudyDirection], asked: str) -> None:
        """Raises ObjectError for a file of another search, and what Optuna raises for one that is no journal."""
        self._storage: BaseStorage = InMemoryStorage()
        if file is not None:
            _mend(file)
            self._storage = JournalStorage(JournalFileBackend(str(file)))
        known = {each.study_name: each for each in self._storage.get_all_studies()}
        if _NAME not in known:
            self._study = self._storage.create_new_study(list(directions), _NAME)
            self._storage.set_study_user_attr(self._study, _ASKED, asked)
            return
        self._study = self._storage.get_study_id_from_name(_NAME)
        if self._storage.get_study_user_attrs(self._study).get(_ASKED) != asked:
            raise ObjectError(
                f"--study: {file}: is of another search (its world, periods, goals, bounds, --vary, --config, --seed, "
                "--at-once or the version of Berth differ): expected a new file"
            )

    def trials(self) -> list[tuple[dict[str, Value], dict[str, float] | None]]:
        """Return the settings of each trial, and its results or None."""
        found = self._storage.get_all_trials(self._study, deepcopy=False)
        return [(each.params, each.user_attrs[_MEASURED] if each.state.is_finished() else None) for each in found]

    def begin(self, values: Values, distributions: Mapping[str, BaseDistribution]) -> None:
        made = create_trial(state=TrialState.RUNNING, params=dict(values), distributions=dict(distributions))
        self._storage.create_new_trial(self._study, made)

    def tell(self, number: int, values: Sequence[float], measured: Mapping[str, float]) -> None:
        trial = self._storage.get_trial_id_from_study_id_trial_number(self._study, number)
        self._storage.set_trial_user_attr(trial, _MEASURED, dict(measured))
        self._storage.set_trial_state_values(trial, TrialState.COMPLETE, list(values))


def _mend(file: Path) -> None:
    """Take the end off a journal whose last line was not written whole: what would be added to it could not be read.

    Raises ObjectError for a file that is not of a search; it stays as it is.
    """
    if not file.exists() or not file.stat().st_size:
        return
    with file.open("r+b") as opened:
        try:
            ours = msgspec.json.decode(opened.readline()).get("study_name") == _NAME
        except (msgspec.DecodeError, AttributeError):
            ours = False
        if not ours:
            raise ObjectError(f"--study: {file}: expected a file that berth tune has made")
        opened.seek(0)
        whole = opened.read().rfind(b"\n") + 1
        opened.truncate(whole)
