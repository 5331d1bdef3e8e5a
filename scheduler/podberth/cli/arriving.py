"""What the files of `-f` ask for: pods to create, and objects to add."""

from podberth.cli.errors import about, complain
from podberth.cli.inputs import named
from podberth.explain.objects import manifest
from podberth.explain.objects.controllers import KINDS
from podberth.explain.objects.documents import Document
from podberth.explain.objects.manifest import Workload, groups_made, in_groups
from podberth.explain.objects.world import World
from podberth.explain.report.wording import count
from podberth.explain.simulate.arrivals import Batch, batches, refuse_twins, rolled_out, still_to_come
from podberth.framework.runtime import Framework
from podberth.model.kinds import Modelled
from podberth.model.namespaced import Namespace, SelectingObject

_PROBLEMS = 8


class Asked:
    """What the files ask for: pods to create, and objects to add."""

    def __init__(self, there: World, framework: Framework, namespace: str | None, usual: str) -> None:
        self.batches: list[Batch] = []
        self.added: list[Modelled] = []
        self.not_simulated: list[str] = []
        self.notes: list[str] = []
        self._there = there
        self._framework = framework
        self._namespace = namespace
        self._usual = usual

    @property
    def empty(self) -> bool:
        """Return whether there is nothing of which a simulation would show anything."""
        return not self.batches and all(isinstance(each, SelectingObject | Namespace) for each in self.added)

    def add(self, file: str, held: list[Document]) -> None:
        """Add what a file holds. Raises InputError."""
        with about(named(file)):
            problems = len(self._there.problems)
            made = groups_made(held)
            self.notes += made.notes
            self.added += self._there.added([*held, *made.groups], self._namespace or self._usual)
            complain([f"{named(file)}: {line}" for line in self._there.problems[problems:][:_PROBLEMS]])
            self.not_simulated += manifest.without_pods(held)
            left_out = manifest.made_by_others(held)
            if left_out:
                self.notes.append(f"{count(left_out, 'object')} of {named(file)} left out: others there make them")
            found = self._batches(in_groups(manifest.workloads(held), made.jobs))
            for batch in found:
                if batch.kind not in KINDS and not batch.workload.note:
                    self.notes.append(f"{batch.owner}: counted as {count(batch.count, 'pod')}")
            new: list[Batch] = []
            for batch in found:
                replaced = rolled_out(batch, self._there)
                self.not_simulated += [replaced] if replaced else []
                workloads, notes = still_to_come(batch, self._there)
                self.notes += notes
                new += [batch] if workloads == [batch.workload] else self._batches(workloads)
            earlier, self.batches = self.batches, [*self.batches, *new]
            refuse_twins(new, earlier, self._there)

    def _batches(self, workloads: list[Workload]) -> list[Batch]:
        return batches(
            workloads, self._there, self._framework, self._namespace, self._usual, refused=self.not_simulated
        )
