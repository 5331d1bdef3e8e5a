"""What an attempt to schedule a pod costs. Pure rooms have no clock, so they count steps.

A step is about a microsecond of one core. Code that a tenant can make expensive charges the steps it took; the engine
gives each attempt a slice of steps, sets a pod aside whose slice is used up, and goes on with it between other pods.
"""

UNLIMITED = 1 << 62


class SliceOver(BaseException):
    """The attempt has used up its slice. What it found so far is kept: asked again, it gets further.

    No plugin may catch it, which is why it is no `Exception`.
    """


class Effort:
    """Counts the steps of one attempt at a time. Without `begin` nothing is limited."""

    __slots__ = ("_end", "causes", "over", "spent")

    def __init__(self) -> None:
        self.spent = 0
        """Steps since `begin`, and those that were spent before."""
        self.over = False
        """The slice is used up and SliceOver was raised; answers after that do not count."""
        self.causes: dict[str, int] = {}
        """What the attempt had to look at, and how many of these, for the message about one that costs too much."""
        self._end = UNLIMITED

    def begin(self, steps: int, spent: int = 0) -> None:
        """Start a slice of this many steps for an attempt that has spent some in earlier slices."""
        self.spent = spent
        if self.causes:
            self.causes = {}
        self.over = False
        self._end = spent + steps

    def end(self) -> int:
        """End the slice, so that nothing is limited; returns the steps that the attempt has spent in all."""
        self._end = UNLIMITED
        self.over = False
        return self.spent

    def pause(self) -> int:
        """Count steps without ending the slice: columns are being changed, which must not stop halfway.

        Returns what `resume` needs.
        """
        end, self._end = self._end, UNLIMITED
        return end

    def resume(self, end: int) -> None:
        """The columns are right again: the next charge may end the slice."""
        self._end = end

    def charge(self, steps: int) -> None:
        """Count steps that were taken. Call it once their result is kept; otherwise an attempt would never get further.

        Raises SliceOver when the slice is used up.
        """
        self.spent += steps
        if self.spent >= self._end:
            self.over = True
            raise SliceOver

    def stop(self) -> None:
        """End the slice: what the attempt needs is somebody else's for now. Only where a slice is under way."""
        self.over = True
        raise SliceOver

    def count(self, steps: int) -> None:
        """Count steps without ending the slice: for work that has to be repeated after each change of the cluster.

        If this work ended slices, changes between the slices could keep an attempt from ever getting further.
        """
        self.spent += steps

    @property
    def is_limited(self) -> bool:
        """Whether a slice is under way."""
        return self._end != UNLIMITED

    def note(self, what: str, number: int) -> None:
        """Note what makes an attempt expensive ("terms", 700), in words that a message can show."""
        self.causes[what] = max(number, self.causes.get(what, 0))
