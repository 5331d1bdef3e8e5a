"""A collection looks at what is young, and at nothing more than twice, but once a day at everything."""

import subprocess
import sys

SCRIPT = """
import asyncio
import gc
import weakref
from podberth.service import collector

collector.be_brief()
collector.be_brief()
seen = []

def young(phase, info):
    if phase == "start":
        seen.append(sum(map(len, map(gc.get_objects, range(info["generation"] + 1)))))

gc.callbacks.append(young)
kept = [[] for _ in range(20 * collector.YOUNG)]
assert len(seen) >= 15, len(seen)
assert max(seen) < 3.5 * collector.YOUNG, max(seen)
assert gc.get_freeze_count() > 15 * collector.YOUNG

seen.clear()
for i in range(len(kept)):
    kept[i] = []  # as many come as go
    if i % 2 == 0:
        collector.worked(1)
assert len(seen) >= 20, len(seen)
assert max(seen) < 3.5 * collector.YOUNG, max(seen)

class Node: pass

refs = []
for _ in range(10 * collector.AGED):
    one = Node()
    one.self = one
    refs.append(weakref.ref(one))
    collector.worked(collector.WORK)  # it is in use while a collection runs
    del one
for _ in range(collector.AGED):
    collector.worked(collector.WORK)
lost = sum(ref() is not None for ref in refs)
assert lost <= 10, lost

def garbage():
    for _ in range(3 * collector.YOUNG):
        one = Node()
        one.self = one

found = []
gc.callbacks.append(lambda phase, info: found.append(info["collected"]))
garbage()
assert sum(found) > collector.YOUNG, sum(found)

late = Node()
late.self = late
gc.collect()
gone = weakref.ref(late)
del late
gc.collect()
assert gone() is not None
collector.DAY_SECONDS = 0.0

async def a_day() -> None:
    daily = asyncio.create_task(collector.look_through_daily())
    while gone() is not None:
        await asyncio.sleep(0)
    daily.cancel()

asyncio.run(asyncio.wait_for(a_day(), 120.0))
"""


def test_no_collection_looks_at_old_objects() -> None:
    """In a process of its own, since it holds until its end: 200,000 objects that stay, and garbage that does not."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
