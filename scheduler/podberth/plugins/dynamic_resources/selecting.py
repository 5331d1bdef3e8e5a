"""CEL selectors of requests and classes: compiled once, evaluated once for devices with equal traits.

Results are kept by the namespaces whose pods ask: a tenant with many expressions displaces its own results, nobody
else's.
"""

from collections.abc import Callable

from podberth.cache.search_steps import CappedSearch
from podberth.cel.owned import Owned
from podberth.model.devices import DeviceID, DeviceTraits

_KEPT_BYTES = 32 << 20
_AN_EXPRESSION = 256
"""Bytes that an expression takes, besides its text and a byte for each traits."""
_NUMBERS = 1 << 18
"""The most traits that are numbered. With one more, all begin afresh: devices come and go, and their numbers stay."""
_UNKNOWN, _NO, _YES = range(3)


class SelectorResults:
    """Expression → a result for each traits. Traits are numbered, so only one of these may know them."""

    def __init__(self, most: int = _KEPT_BYTES, numbers: int = _NUMBERS) -> None:
        """`most`: bytes of all results. `numbers`: how many traits are numbered."""
        self._results: Owned[bytearray] = Owned(most)
        self._numbers = numbers
        self._edition = 0
        """Counts how often numbers began afresh."""
        self._given = 0

    def known(self, expression: str, traits: DeviceTraits) -> bool | None:
        """Return whether an expression holds for a device; None: not evaluated yet."""
        results = self._results.peek(expression)
        if results is None or traits.edition != self._edition or traits.number >= len(results):
            return None
        result = results[traits.number]
        return None if result == _UNKNOWN else result == _YES

    def holds(
        self, expression: str, traits: DeviceTraits, owner: str, evaluate: Callable[[str, DeviceTraits], bool]
    ) -> bool:
        """Return whether an expression holds for a device; `evaluate` is called the first time. Its errors are not
        kept.
        """
        number = self._number_of(traits)
        results = self._of(expression, owner)
        if number < len(results) and results[number] != _UNKNOWN:
            return results[number] == _YES
        answer = evaluate(expression, traits)
        self._note(expression, results, number, answer)
        return answer

    def _number_of(self, traits: DeviceTraits) -> int:
        """The place of the traits in all results."""
        if traits.edition != self._edition:
            if self._given >= self._numbers:
                self._edition += 1
                self._results.clear()
                self._given = 0
            traits.edition, traits.number = self._edition, self._given
            self._given += 1
        return traits.number

    def _of(self, expression: str, owner: str) -> bytearray:
        """The results of an expression, which are this owner's from now on, too."""
        found = self._results.get(expression, owner)
        if found is None:
            found = bytearray(64)
            self._results.put(expression, found, _AN_EXPRESSION + len(expression) + len(found), owner)
        return found

    def _note(self, expression: str, results: bytearray, number: int, answer: bool) -> None:
        """Write a result."""
        if number >= len(results):
            more = max(number + 1, 2 * len(results)) - len(results)
            results.extend(bytes(more))
            self._results.grow(expression, more)
        results[number] = _YES if answer else _NO


_OF_PROCESS = SelectorResults()
"""One for the process: clusters of `--verify` and of tests share traits."""
known, holds = _OF_PROCESS.known, _OF_PROCESS.holds


EVALUATING = "podberth.plugins.dynamic_resources.evaluating"
"""The module that knows CEL. CEL is a tenth of what a scheduler imports, and most clusters have no devices. So it is
imported for the first expression, or before by a shell that sees devices come."""


class Programs:
    """Asks expressions, and counts the steps that compiling and evaluating them takes."""

    def __init__(self) -> None:
        self.owner = ""
        """The namespace that asks."""
        self.search: CappedSearch | None = None
        """The search that asks; None: the steps are nobody's, as an explanation asks."""

    def selects(self, expression: str, whose: str, traits: DeviceTraits, device: DeviceID) -> bool:
        """Return whether the expression selects the device. `whose`: of what it is a selector, for messages.

        Raises AllocationError, and SearchCapError.
        """
        from podberth.plugins.dynamic_resources.evaluating import selects

        return selects(expression, whose, traits, device, self.owner, self.search)
