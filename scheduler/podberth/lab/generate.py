"""Worlds for which there is no trace, made by a seed: services, jobs and gangs, with priorities and devices.

Sizes, times and numbers are drawn with NumPy. The same arguments make the same world, on every machine.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from podberth.lab.gpus import SHARED_GPU, WHOLE
from podberth.lab.traces.rows import gang, node, pod
from podberth.lab.world import Arrival, Change, World

Times = NDArray[np.float64]
DAY = 86_400.0
_LONGEST = 7 * DAY
_PRIORITIES, _OF_EACH = (0, 100, 1000), (0.7, 0.2, 0.1)
_CORES, _GIB, _GPUS = 32, 128, 8
"""What a node has, GPUs only where it has any."""


def poisson(dice: np.random.Generator, count: int, span: float) -> Times:
    """Return float[count]: sorted times in a span (s), each as likely as any other."""
    return np.sort(dice.uniform(0, span, count))


def daily(dice: np.random.Generator, count: int, span: float, swing: float = 0.8) -> Times:
    """Return float[count]: sorted times in a span (s), with more at noon than at midnight by up to `swing`, 0 to 1."""
    grid = np.linspace(0, span, 2 + int(span / DAY * 96))
    rate = 1 - swing * np.cos(2 * np.pi * grid / DAY)
    return np.sort(dice.choice(grid, count, p=rate / rate.sum()) + dice.uniform(0, span / len(grid), count))


def bursts(dice: np.random.Generator, count: int, span: float, size: float = 20) -> Times:
    """Return float[count]: sorted times in a span (s), in bursts of `size` on average that take a minute each."""
    begins = dice.uniform(0, span, max(int(count / size), 1))
    return np.sort(dice.choice(begins, count) + dice.uniform(0, 60, count))


def heavy_tailed(dice: np.random.Generator, count: int, median: float, spread: float = 1.8) -> Times:
    """Return float[count]: durations (s), log-normal: most are short, and few make up most of the time. At most a
    week; `spread` is the standard deviation of their logarithm.
    """
    return np.minimum(dice.lognormal(np.log(median), spread, count), _LONGEST)


_PROCESSES = {"poisson": poisson, "daily": daily, "bursts": bursts}


def mixed(
    *,
    nodes: int = 100,
    pods: int = 1_000,
    seed: int = 0,
    arrivals: Literal["poisson", "daily", "bursts"] = "poisson",
    load: float = 0.7,
    services: float = 0.2,
    gangs: float = 0.1,
    gpu_nodes: float = 0.2,
    median: float = 600.0,
) -> World:
    """Return a world of services, which come first and stay, jobs, and gangs of jobs that start together.

    `services`, `gangs`: their shares of the pods. `gpu_nodes`: the share of the nodes that have eight GPUs; as many of
    the jobs ask for parts of one, and the gangs for whole ones. `load`: the CPU that jobs use on average while they
    come, over all CPU. `median`: of their durations, in seconds. Nodes are in three zones, and three priorities are as
    frequent as 7 to 2 to 1. Raises ValueError for shares beyond 0 to 1, those of services and
    gangs together too, and for no node.
    """
    shares = services, gangs, services + gangs, gpu_nodes
    if nodes < 1 or pods < 0 or load <= 0 or not all(0 <= each <= 1 for each in shares):
        raise ValueError("expected nodes, a load of more than 0, and shares from 0 to 1")
    dice = np.random.default_rng(seed)
    with_gpus = round(nodes * gpu_nodes)
    cores = 2.0 ** dice.integers(-2, 4, pods)
    memory = cores * dice.choice((1, 2, 4), pods)
    lasts = heavy_tailed(dice, pods, median)
    serving = int(pods * services)
    lasts[:serving] = np.inf
    size = dice.integers(2, 9)
    members = int(pods * gangs) // size * size
    priority = dice.choice(_PRIORITIES, pods, p=_OF_EACH)
    parts = np.where(dice.random(pods) < gpu_nodes, dice.choice((250, 500, WHOLE), pods), 0)
    parts[:serving] = 0
    jobs = slice(serving, pods)
    span = float((cores[jobs] * lasts[jobs]).sum()) / (load * nodes * _CORES)
    at = np.zeros(pods)
    at[jobs] = _PROCESSES[arrivals](dice, pods - serving, span)
    first = pods - members
    at[first:] = np.sort(dice.uniform(0, span, members // size)).repeat(size)
    made, changes = [], []
    for i in range(pods):
        group = f"gang-{(i - first) // size}" if i >= first else ""
        leader = i - (i - first) % size if group else i
        requests = {"cpu": f"{round(1000 * cores[leader])}m", "memory": f"{round(1024 * memory[leader])}Mi"}
        asked = int(parts[i]) if not group else WHOLE * int(bool(with_gpus))
        if asked and with_gpus:
            requests[SHARED_GPU] = str(asked)
        if group and leader == i:
            changes.append(Change(float(at[i]), put=gang(group, int(size), priority=int(priority[i]))))
        kind = "service" if i < serving else "member" if group else "job"
        labels: dict[str, Any] = {"app": f"{kind}-{i % 20}"}
        raw = pod(f"{kind}-{i}", requests, labels=labels, priority=int(priority[leader]), gang=group)
        made.append(Arrival(float(at[i]), raw, float(lasts[leader])))
    return World(
        f"mixed-{seed}",
        tuple(_node(number, gpus=number < with_gpus) for number in range(nodes)),
        tuple(sorted(made, key=lambda each: each.at)),
        tuple(changes),
    )


def _node(number: int, *, gpus: bool) -> bytes:
    room = {"cpu": str(_CORES), "memory": f"{_GIB}Gi"}
    if gpus:
        room[SHARED_GPU] = str(WHOLE * _GPUS)
    return node(f"node-{number}", room, {"topology.kubernetes.io/zone": f"zone-{'abc'[number % 3]}"})
