"""A plugin that does I/O: it asks a service whether a pod may be bound to its node."""

import aiohttp
from msgspec import Struct

from podberth.kit import AssumedPod, Plugin, Reject, Unschedulable


class AskFirstArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Where to ask. 200 means yes; anything else no, and the answer's text says why."""

    url: str


class AskFirst(Plugin):
    """Asks before each Binding. A coroutine has `time_limit` seconds, and the scheduler goes on while it waits."""

    name = "AskFirst"
    Args = AskFirstArgs
    time_limit = 5.0

    def __init__(self, args: AskFirstArgs) -> None:
        self._url = args.url

    async def pre_bind(self, assumed: AssumedPod) -> Reject | None:
        """None: the pod may go. A Reject, or whatever is raised here, fails this attempt under the plugin's name."""
        question = {"pod": assumed.pod.key, "node": assumed.node}
        async with aiohttp.ClientSession() as session, session.get(self._url, params=question) as answer:
            if answer.status == 200:
                return None
            return Reject(Unschedulable(f"{self._url} says no: {await answer.text()}"))
