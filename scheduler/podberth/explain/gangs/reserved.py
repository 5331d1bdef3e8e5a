"""Room that is kept for gangs (argument `reservation` of GangScheduling), as the conditions of their groups tell it.

The scheduler writes down nothing else about it: on which nodes the room is, only its own memory knows.
"""

import re
from collections.abc import Iterator

from podberth.cache.cluster import Cluster
from podberth.model.lasting import since_epoch
from podberth.model.pod_group import INITIALLY_SCHEDULED, GroupKey, PodGroup

_SAID = re.compile(r"(?:^|, )((?:no )?room is kept for it\b.*)$")
_ROOM = re.compile(r"room is kept for it on (.+?) until (\S+?),")
_MOST = 5


def said_of(group: PodGroup) -> str:
    """Return what is said of room for a group; empty: nothing."""
    condition = group.condition(INITIALLY_SCHEDULED)
    found = None if condition is None or condition.status == "True" else _SAID.search(condition.message)
    return "" if found is None else found[1]


def kept_from(priority: int, own: GroupKey | None, cluster: Cluster) -> Iterator[str]:
    """Notes for a pod of this priority, or for a group (`own`): whose room it may not use."""
    others = (one.object for one in cluster.pod_groups if one.object is not None and one.key != own)
    rooms = ((group, _ROOM.match(said_of(group))) for group in others if (group.priority or 0) >= priority)
    wall = cluster.devices.wall
    found = sorted(
        (str(group.key), room[1], room[2]) for group, room in rooms if room and (since_epoch(room[2]) or 0) > wall
    )
    for name, nodes, until in found[:_MOST]:
        yield (
            f"room is kept for the pod group {name} on {nodes} until {until}: pods that end later and are not more "
            "important may not use it. Only the scheduler knows these nodes, so less may fit than is said here"
        )
    if len(found) > _MOST:
        yield f"room is kept for {len(found) - _MOST:,} more pod groups"
