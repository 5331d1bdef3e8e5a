"""Requests of placed pods for resources that no node offers: any user may name any resource, and thousands of them.

What most pods ask for is kept by resource. A pod that asks for very many is kept as a whole: so placing and removing
it, also in a dry run, costs nothing for resources that nobody has.
"""

from collections.abc import Mapping

from scheduler.model.shape import PodShape

MANY = 64
"""Pods that ask for more resources than these are kept as a whole."""


class Unoffered:
    """Resource → row → amount, of resources without a column."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, int]] = {}
        self._whole: dict[PodShape, dict[int, int]] = {}
        """Row → how many pods of this shape."""

    def add(self, name: str, row: int, amount: int) -> None:
        """A pod asks for so much more of a resource, or less."""
        if amount:
            rows = self._by_name.setdefault(name, {})
            rows[row] = rows.get(row, 0) + amount
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self._by_name[name]

    def add_whole(self, shape: PodShape, row: int, pods: int) -> None:
        """So many more pods on a row that ask for more than `MANY` resources, or fewer."""
        rows = self._whole.setdefault(shape, {})
        rows[row] = rows.get(row, 0) + pods
        if not rows[row]:
            del rows[row]
            if not rows:
                del self._whole[shape]

    def take(self, name: str) -> dict[int, int]:
        """A node offers a resource now, which gets a column: row → amount."""
        found = self._by_name.pop(name, {})
        for row, amount in self._of_whole(name).items():
            found[row] = found.get(row, 0) + amount
        return found

    def give_back(self, name: str, rows: Mapping[int, int]) -> None:
        """No node offers a resource any more: row → amount, as its column had it."""
        whole = self._of_whole(name)
        for row, amount in rows.items():
            self.add(name, row, amount - whole.get(row, 0))

    def by_name(self, offered: Mapping[str, int]) -> dict[str, dict[int, int]]:
        """Resource → row → amount. `offered`: the resources that have a column."""
        found = {name: dict(rows) for name, rows in self._by_name.items()}
        for shape, rows in self._whole.items():
            for name, amount in shape.requests.items():
                if amount and name not in offered:
                    of_name = found.setdefault(name, {})
                    for row, pods in rows.items():
                        of_name[row] = of_name.get(row, 0) + amount * pods
        return found

    def _of_whole(self, name: str) -> dict[int, int]:
        found: dict[int, int] = {}
        for shape, rows in self._whole.items():
            amount = shape.requests.get(name)
            if amount:
                for row, pods in rows.items():
                    found[row] = found.get(row, 0) + amount * pods
        return found
