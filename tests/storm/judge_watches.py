"""What must hold of watches and of what is seen, judged from the server's side.

W1: a version that the server has forgotten is not asked for again. W2: a watch that says nothing any more is given up.
W3: where no event can have been lost, no comparison with a list finds one. B1: nobody binds pods for long while it may
not see nodes or pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.storm.asked import OURS

if TYPE_CHECKING:
    from tests.storm.berth import Berth
    from tests.storm.judge import Judge
    from tests.storm.world import World

SILENCE_SECONDS = 85.0
"""A stream is given up after 67 s without a byte, by a clock that may be slow; then its end is on its way."""
LOOK_SECONDS = 5.0
NEEDED = ("nodes", "pods")


class WatchJudge:
    """Watches the watches."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge
        self._forgotten: dict[tuple[str, str], int] = {}
        """Process and kind → the version that the server has said it has forgotten."""
        self._cut: dict[str, float] = {}
        """Process → when an answer to it was cut off last."""
        self._refused: dict[str, float] = {}
        """Kind → since when nobody may see it."""
        self._told: set[int] = set()
        world.server.on_watch = self.begins

    def begins(self, user: str, kind: str, since: int | None, forgotten: bool) -> None:
        """A watch begins."""
        who = user.partition(" ")[0], kind
        if since is not None and self._forgotten.get(who) == since:
            self._judge.say("W1", f"{user} asks again for {kind} since {since}, which the server has forgotten")
        self._forgotten.pop(who, None)
        if forgotten and since is not None and self._cut.get(who[0].partition(".")[0]) != self._world.now:
            self._forgotten[who] = since

    def unheard(self, process: str) -> None:
        """An answer to a process was cut off: it may not know what the server has said."""
        self._cut[process] = self._world.now  # it may have been the head of that very answer
        for who in [who for who in self._forgotten if who[0].partition(".")[0] == process]:
            del self._forgotten[who]

    def misled(self, user: str) -> None:
        """A process got a list that the server has not given: it may have been told any version there."""
        for who in [who for who in self._forgotten if who[0] == user.partition(" ")[0]]:
            del self._forgotten[who]

    def restored(self) -> None:
        """The past is another one, in which the server has forgotten nothing yet; versions come again."""
        self._forgotten.clear()

    def look(self) -> None:
        """Now and then: W2, and which kinds are refused."""
        world = self._world
        for kind in NEEDED:
            if kind in world.server.denied:
                self._refused.setdefault(kind, world.now)
            else:
                self._refused.pop(kind, None)
        for session in world.server.sessions:
            watch = session.watch
            if watch is None or watch.stuck_at is None or not watch.user.startswith(OURS):
                continue
            end = session.end
            process = end.peer.loop
            if process.still or end.wire.silent or process.name in world.network.cut_off:
                continue
            if end.peer.over:
                continue  # the process has closed it, and a server that stands still does not know that yet
            went_on = max(watch.stuck_at, process.went_on_at)
            if world.now - went_on > SILENCE_SECONDS and id(watch) not in self._told:
                self._told.add(id(watch))
                self._judge.say("W2", f"{watch.user} still waits for {watch.kind}, silent since {watch.stuck_at:.1f}")

    def binds(self, who: Berth) -> None:
        """B1: a replica sends a Binding."""
        world = self._world
        for kind, since in self._refused.items():
            if world.now - max(since, who.loop.went_on_at) > self._judge.news() and not self._judge.unsure():
                self._judge.say("B1", f"{who.user} binds, and may not see {kind} since {since:.1f}")

    def finish(self) -> None:
        """W3."""
        if self._world.lossy:
            return
        for berth in self._world.berths:
            if berth.scheduler is None:
                continue
            for reflector in berth.scheduler.watch.reflectors:
                if reflector.counts.lost:
                    kind = reflector.resource.kind
                    self._judge.say("W3", f"{berth.user} found {reflector.counts.lost} {kind}s lost, and none was")
