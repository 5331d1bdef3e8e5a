"""`make tour`: a pod passes every stop, and each names a file and a line where that function is."""

import re
from pathlib import Path

from bench.tour import STOPS, files_passed, walk

ROOT = Path(__file__).parents[3]


def test_the_pod_passes_every_stop() -> None:
    """In the order of the pod's way; a stop that is renamed or not passed any more fails here."""
    stops = walk()
    assert len(stops) == len(STOPS)
    names = []
    for stop in stops:
        where = re.match(r" ?\d+\. (\S+):(\d+)  (\S+)\n    (.+)\n    here: (.+)$", stop)
        assert where is not None, stop
        line = (ROOT / where[1]).read_text(encoding="utf-8").splitlines()[int(where[2]) - 1]
        names.append(where[3])
        assert re.search(rf"def {names[-1].rpartition('.')[2]}\b|^\s*@", line), stop
    assert (names[0], names[-1]) == ("Decoder.pod", "Cluster.put_pod")
    assert (
        names.index("SchedulingQueue.pop") < names.index("TaintToleration.filter") < names.index("BindingCycles.assume")
    )


def test_files_that_a_pod_passes_are_counted() -> None:
    """Those of the engine, the queue and the plugins are among them, and no test is."""
    found = {file.relative_to(ROOT).as_posix() for file in files_passed()}
    assert any(name.endswith("engine/schedule_one.py") for name in found)
    assert any(name.endswith("engine/queue/scheduling_queue.py") for name in found)
    assert all(name.startswith("scheduler/") for name in found)
