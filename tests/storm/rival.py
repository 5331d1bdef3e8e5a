"""Another scheduler on the same nodes, with a cache of its own that is some seconds old."""

from __future__ import annotations

from random import Random

from tests.storm.actors import RIVAL, JsonObject, cpu_of, ended, node_of, room_of
from tests.storm.loop import Loop
from tests.storm.server import Server


class Rival:
    """It decides on what it sees, and binds some seconds later."""

    def __init__(self, server: Server, loop: Loop, rng: Random, every: float) -> None:
        self._server = server
        self._loop = loop
        self._rng = rng
        self._every = every
        loop.call_later(every, self._look)

    def _look(self) -> None:
        """Decide on what is seen now, and bind some seconds later."""
        pods = self._server.objects("pods")
        mine = [
            pod
            for pod in pods
            if pod["spec"].get("schedulerName") == RIVAL
            and not node_of(pod)
            and not pod["metadata"].get("deletionTimestamp")
        ]
        used: dict[str, int] = {}
        for pod in pods if mine else ():
            if (on := node_of(pod)) and not ended(pod):
                used[on] = used.get(on, 0) + cpu_of(pod)
        nodes = self._server.objects("nodes")
        for pod in mine:
            fitting = [
                node
                for node in nodes
                if not node["spec"].get("unschedulable")
                and room_of(node)[0] - used.get(node["metadata"]["name"], 0) >= cpu_of(pod)
            ]
            if fitting:
                name = self._rng.choice(fitting)["metadata"]["name"]
                used[name] = used.get(name, 0) + cpu_of(pod)
                self._loop.call_later(self._every * self._rng.random(), self._bind, pod["metadata"], name)
        self._loop.call_later(self._every, self._look)

    def _bind(self, meta: JsonObject, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
            "target": {"kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        self._server.call(RIVAL, "POST", path, body)
