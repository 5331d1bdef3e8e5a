"""A plugin that goes by outside data: it prefers zones whose electricity emits little carbon, as a service says."""

import aiohttp
import msgspec
from msgspec import Struct

from podberth.kit import MAXIMUM_REVERSED, NODE, SOURCES, Cluster, Ints, Plugin, Pod, Reads, Rows, Source

ZONE = "topology.kubernetes.io/zone"


class LowCarbonArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Where to ask, and how often. The answer is JSON: grams of CO2 per kilowatt-hour by zone."""

    url: str
    interval_seconds: float = 60.0


class LowCarbon(Plugin):
    """Scores by the last answer. While there is none, all zones are alike."""

    name = "LowCarbon"
    Args = LowCarbonArgs
    depends_on = NODE | SOURCES
    normalize = MAXIMUM_REVERSED

    def __init__(self, args: LowCarbonArgs) -> None:
        self._url = args.url
        self.carbon = Source[dict[str, int]]("carbon", self._fetch, {}, interval=args.interval_seconds)
        self.reads = Reads(sources=(self.carbon,))

    async def _fetch(self) -> dict[str, int]:
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(self._url) as answer:
            return msgspec.json.decode(await answer.read(), type=dict[str, int])

    def score(self, pod: Pod, cluster: Cluster, feasible: Rows) -> Ints:
        """Grams by row, of which the least is the best. A zone that the service does not know counts as the worst."""
        nodes, grams = cluster.nodes, self.carbon.value
        worst = max(grams.values(), default=0)
        question = (self.name, self.carbon.version)
        by_row = nodes.label(ZONE).map(nodes.rows, question, lambda zone: grams.get(zone or "", worst))
        return by_row[feasible]
