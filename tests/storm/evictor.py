"""One replica of `berth evictor` as a simulated process: what `controller.eviction.launch` puts together."""

from __future__ import annotations

from podberth.app.evictor.launch import Post, lead
from podberth.evictor.gates import Settings
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.kube.machine import Machine
from tests.builders import configuration
from tests.storm.berth import PLUGINS
from tests.storm.process import Process

CAREFUL = Settings(
    grace=15.0,
    changed_share=0.5,
    changed_window=60.0,
    node_rate=1.0,
    owner_backoff=60.0,
    owner_backoff_most=240.0,
    retry=5.0,
    retry_most=30.0,
    rest=60.0,
)
"""Ten minutes are to see several graces and rounds."""


class Evictor(Process):
    """A replica of the evictor."""

    lease = "berth-evictor"
    post: Post | None = None

    async def work(self, machine: Machine) -> None:
        config = decode(configuration())
        async with self.client_of(machine) as client, self.client_of(machine) as aside:
            self.client = client
            self.post = Post(self.lease, self.candidate(aside, machine))
            working = lead(client, build(config, PLUGINS), CAREFUL, self.post, machine)
            await self.until_told(working)
