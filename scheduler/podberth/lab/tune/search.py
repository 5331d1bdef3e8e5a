"""The search: Optuna proposes, workers measure, a study file remembers.

Trial k is proposed when all trials up to k - `at_once` are known, whoever is faster, by a sampler whose seed follows
from k. So a search is the same on any number of workers, and the same if it was interrupted: what it proposes next
follows from the trials that are done, and only these are kept.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path

import msgspec
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, create_trial

from podberth import __version__
from podberth.explain.objects.documents import ObjectError
from podberth.lab.tune.goals import Bound, Goal
from podberth.lab.tune.space import Setting, Space, Value, Values, packed
from podberth.lab.tune.trial import Course, Task, carried_out

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
    """A search of one course, space and set of goals; it goes on where it ended."""

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
        self.name = self._digest()
        """Differs if the results of a trial or the proposals would."""
        self._learns = optuna.create_study(directions=directions)
        """What the sampler knows: the trials up to that which is proposed minus `at_once`, and what it has proposed."""
        self._known = 0
        """The number of trials that the sampler knows the results of."""
        self._proposed: list[Values] = []
        """The settings of trials, done or not."""
        self._kept = _kept(file, directions, self.name)
        self.done: list[Candidate] = []
        """The trials whose results are known, by number."""
        for trial in self._kept.get_trials(deepcopy=False):
            self.done.append(Candidate(trial.number, trial.params, trial.user_attrs[_MEASURED]))
            self._proposed.append(trial.params)

    def _digest(self) -> str:
        settings = [str(each) for each in (*self._goals, *self._bounds, *self._space.settings)]
        base = packed(self._space.base).decode()
        search = (self._course, settings, base, self._space.profile, self._seed, self._at_once)
        what = msgspec.msgpack.encode((__version__, *search))
        return hashlib.sha256(what).hexdigest()

    def go_on(self, executor: Executor, trials: int, progress: Progress) -> None:
        """Carry out trials until there are as many as this. Ends early by KeyboardInterrupt or BrokenExecutor, and of
        what is done nothing is lost.
        """
        under_way: deque[list[Future[dict[str, float]]]] = deque()
        while (done := len(self.done)) < trials:
            progress(done, trials)
            while done + len(under_way) < min(trials, done + self._at_once):
                under_way.append(self._begun(self._settings(done + len(under_way)), executor))
            runs = [each.result() for each in under_way.popleft()]
            self._tell({name: sum(each[name] for each in runs) / len(runs) for name in runs[0]})
        progress(len(self.done), trials)

    def _begun(self, values: Values, executor: Executor) -> "list[Future[dict[str, float]]]":
        """Begin the runs of a trial: one for each training period, all with one seed, so that luck is the same."""
        configuration = packed(self._space.configuration(values))
        training = [i for i, period in enumerate(self._course.periods) if not period.held_out]
        longest_first = reversed(training)  # later periods begin with more pods; so at the end no worker waits long
        runs = [executor.submit(carried_out, Task(self.name, configuration, i, self._seed)) for i in longest_first]
        return runs[::-1]

    def _settings(self, number: int) -> Values:
        """Return the settings of a trial: the base first, then what the sampler proposes from what it knows."""
        if number == len(self._proposed):
            for candidate in self.done[self._known : max(number - self._at_once + 1, 0)]:
                self._learns.add_trial(self._frozen(candidate))
                self._known += 1
            digest = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
            self._learns.sampler = TPESampler(
                n_startup_trials=_BEGIN, multivariate=True, seed=int.from_bytes(digest[:4], "big")
            )
            self._proposed.append(self._learns.ask(self._distributions).params if number else self._space.begin())
        return self._proposed[number]

    def _tell(self, measured: dict[str, float]) -> None:
        number = len(self.done)
        self.done.append(Candidate(number, dict(self._proposed[number]), measured))
        self._kept.add_trial(self._frozen(self.done[number]))

    def _frozen(self, candidate: Candidate) -> FrozenTrial:
        return create_trial(
            values=[candidate.measured[str(goal)] for goal in self._goals],
            params=candidate.values,
            distributions=self._distributions,
            user_attrs={_MEASURED: candidate.measured},
            constraints={str(bound): bound.missed(candidate.measured) for bound in self._bounds},
        )

    def front(self) -> list[Candidate]:
        """Return the trials that keep to all bounds and that no other such trial beats in every goal, the best in the
        first goal first.

        Of trials with equal results, the first. If none keeps to the bounds, that which misses them by the least.
        """
        best = [self.done[trial.number] for trial in self._kept.best_trials]
        best = best or [min(self.done, key=lambda each: (self._missed(each), each.number))]
        first = {tuple(each.measured[str(goal)] for goal in self._goals): each for each in reversed(best)}
        goal = self._goals[0]
        return sorted(first.values(), key=lambda each: goal.better(0.0, each.measured[str(goal)]))

    def _missed(self, candidate: Candidate) -> float:
        return sum(max(bound.missed(candidate.measured), 0.0) for bound in self._bounds)

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


def _kept(file: Path | None, directions: Sequence[StudyDirection], asked: str) -> Study:
    """Return the study that has the trials that are done, each as a whole or not at all.

    Raises ObjectError for a file of another search, and for one that is no journal of a search; it stays as it is.
    """
    if file is None:
        return optuna.create_study(directions=directions)
    wrong = f"--study: {file}: expected a file that berth tune has made"
    if not _is_mended(file):
        raise ObjectError(wrong)
    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(file))),
            study_name=_NAME,
            directions=directions,
            load_if_exists=True,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise ObjectError(f"{wrong}: {error}") from None
    if study.user_attrs.setdefault(_ASKED, asked) != asked:
        raise ObjectError(
            f"--study: {file}: is of another search (its world, periods, goals, bounds, --vary, --config, --seed, "
            "--at-once or the version of Berth differ): expected a new file"
        )
    study.set_user_attr(_ASKED, asked)
    return study


def _is_mended(file: Path) -> bool:
    """Take the end off a journal whose last line was not written whole: what would be added to it could not be read.

    Returns False for a file that is not of a search.
    """
    if not file.exists() or not file.stat().st_size:
        return True
    with file.open("r+b") as opened:
        try:
            if msgspec.json.decode(opened.readline()).get("study_name") != _NAME:
                return False
        except (msgspec.DecodeError, AttributeError):
            return False
        opened.seek(0)
        opened.truncate(opened.read().rfind(b"\n") + 1)
    return True
