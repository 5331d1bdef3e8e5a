"""How long gangs and small pods wait: whole runs in virtual time on a trace of a few pods."""

from random import Random
from xml.etree import ElementTree

from bench.waiting import SETTINGS, Coming, picture, run, stream, table
from podberth.explain.simulate.trace import Trace, read

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},96000,786432,8,G2\n" for i in range(4))


def small_trace() -> Trace:
    """Sixty pods of up to eight GPUs and half an hour."""
    dice = Random(1)
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"
    pods = [f"p{i},1000,1024,{dice.choice((1, 2, 4, 8))},1000,,{i},{i + dice.randint(60, 1800)}" for i in range(60)]
    return read(NODES.encode(), "\n".join([head, *pods]).encode())


def told(trace: Trace) -> list[Coming]:
    return stream(trace, len(trace.nodes), 60, 0.9, 3, 20, 1)


def test_all_start_in_every_setting() -> None:
    """Three gangs of three, and sixty small pods; where room is kept, gangs wait less than where none is."""
    trace = small_trace()
    coming = told(trace)
    found = [(setting, run(trace.nodes, coming, setting)) for setting in SETTINGS]
    for _, waits in found:
        assert (len(waits.gangs), len(waits.small), waits.left) == (9, 60, 0)
        assert 0 < waits.used <= 1
    plain, kept = found[0][1], found[1][1]
    assert sum(kept.gangs) < sum(plain.gangs)
    lines = table(found).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [setting.title for setting in SETTINGS]
    drawn = ElementTree.fromstring(picture(found))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 2 * len(SETTINGS)


def test_a_run_is_the_same_each_time() -> None:
    """Nothing is left to chance, so figures can be compared."""
    trace = small_trace()
    first, second = (run(trace.nodes, told(trace), SETTINGS[1]) for _ in range(2))
    assert (first.gangs, first.small, first.used) == (second.gangs, second.small, second.used)
