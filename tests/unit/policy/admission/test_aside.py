"""Workers: the same answers as in the server's own process, and what becomes of them when one does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podberth.policy.admission import aside as module
from podberth.policy.admission import worker
from podberth.policy.admission.aside import Aside, WorkError
from podberth.policy.admission.jobs import Desk, Review, parsed
from podberth.policy.admission.judging import KnownPolicies, Question, Ruling, Terms
from podberth.policy.admission.reviewer import Reviewer
from tests.unit.policy.admission.builders import Fixed, Object, config_map, encoded, pod, policy, review, rule, without
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.admission.test_neighbours import costly
from tests.unit.policy.admission.test_reviewer import (
    DEFAULT_TEAM,
    NEEDS_OWNER,
    ROUTE,
    asked,
    reviewer,
)

TERMS = Terms("berth", frozenset({"kube-system", "berth"}))
FOREVER = float("inf")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker is replaced or killed for being slow: these tests run beside others."""
    monkeypatch.setattr(module, "JOB_SECONDS", 120.0)
    monkeypatch.setattr(module, "START_SECONDS", 120.0)


@pytest.fixture
async def workers(patience: None) -> AsyncIterator[Aside]:
    """One worker."""
    made = Aside(TERMS, 1)
    await made.start()
    yield made
    await made.stop()


def vast(**metadata: Any) -> Object:
    """A pod of so many containers that it is judged aside."""
    obj = pod(**metadata)
    obj["spec"]["containers"] = [{"name": f"c{i}", "resources": {"requests": {"cpu": "1"}}} for i in range(2000)]
    return obj


async def test_same_answers(workers: Aside) -> None:
    """Whatever is asked, a worker says what the server itself says: patches, denials, warnings, nonsense."""
    policies = [DEFAULT_TEAM, ROUTE, policy("secret", rule({"matchLabels": {"bad": "x"}}, reject=True))]
    cache: Any = Fixed(*policies, refused=("broken",))
    aside = Reviewer(cache, workers)
    here = reviewer(*policies, refused=("broken",))
    big = {"note": "x" * (70 << 10)}
    documents = [
        review(vast()),
        review(vast(labels={"bad": "x"})),
        review(config_map(annotations=big)),
        review(config_map(annotations=big), namespace="kube-system"),
        review(config_map(annotations=big), "UPDATE", old=config_map(annotations=big)),
        review(config_map(annotations=big, labels=7)),
        review(config_map(annotations=big), "NONSENSE"),
        review(vast(annotations={"podberth.dev/required-during-execution": "maybe"})),
    ]
    for document in documents:
        for pass_ in ("mutate", "validate"):
            body = encoded(document)
            request = module.jobs.read(body)
            said = await aside.answer(body, pass_)
            assert len(body) > 64 << 10 and said == await here.answer(body, pass_), request
    assert {key: found.counts() for key, found in aside.tallies.of.items()} == {
        key: found.counts() for key, found in here.tallies.of.items()
    }
    assert workers.replaced == 0


async def test_costly_policies_are_judged_there(workers: Aside) -> None:
    """A small object in a namespace of costly policies goes to a worker, and its policies only once."""
    cache: Any = Fixed(*costly(3), DEFAULT_TEAM)
    by = Reviewer(cache, workers)
    first, second = [await asked(by, review(config_map(), namespace="evil")) for _ in range(2)]
    assert first == second and len(first["warnings"]) == 30
    [one] = workers.workers
    assert one.knows == {"evil": (0, cache.of("evil").units)}
    assert (await asked(by, review(config_map())))["allowed"]


async def test_new_policies_are_told(workers: Aside) -> None:
    """A worker that knows an older version of a namespace's policies is told the new ones."""
    held = KnownPolicies((), version=1)
    body = encoded(review(config_map(annotations={"note": "x" * (70 << 10)})))
    question = Question("mutate")
    before = await workers.review("team", held, question, body, FOREVER)
    found = parsed(encoded(NEEDS_OWNER), ()).spec
    assert before.answer.outcome == "allowed"
    after = await workers.review("team", KnownPolicies((found,), version=2), question, body, FOREVER)
    assert after.answer.outcome == "denied"


async def test_worker_that_dies(workers: Aside) -> None:
    """A worker that is killed is replaced; the review that it had is refused, as the object may be what killed it."""
    by = Reviewer(Fixed(DEFAULT_TEAM), workers)  # type: ignore[arg-type]
    body = review(vast())
    assert (await asked(by, body))["allowed"]
    [one] = workers.workers
    os.kill(one.pid, signal.SIGSTOP)
    asking = asyncio.create_task(asked(by, body))
    await until(lambda: not workers.idle)
    os.kill(one.pid, signal.SIGKILL)
    response = await asking
    assert (response["allowed"], response["status"]["code"]) == (False, 413)
    assert workers.replaced == 1
    assert (await asked(by, body))["allowed"]


async def test_worker_that_hangs(workers: Aside, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that does not answer in time is replaced, and its slot is free."""
    await asked_of(workers)
    [one] = workers.workers
    os.kill(one.pid, signal.SIGSTOP)
    with monkeypatch.context() as now, pytest.raises(WorkError):
        now.setattr(module, "JOB_SECONDS", 0.2)
        await asked_of(workers)
    assert (workers.lanes.busy, workers.replaced) == (0, 1)
    assert (await asked_of(workers)).answer.status == 200


async def test_worker_that_is_slow_to_begin(workers: Aside, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may take longer to begin than for a job: on a busy node no worker would ever begin otherwise."""
    [one] = workers.workers
    os.kill(one.pid, signal.SIGSTOP)
    with monkeypatch.context() as now:
        now.setattr(module, "JOB_SECONDS", 0.1)
        asking = asyncio.create_task(asked_of(workers))
        await asyncio.wait((asking,), timeout=0.3)
    os.kill(one.pid, signal.SIGCONT)
    assert (await asking).answer.status == 200
    assert workers.replaced == 0


async def test_worker_that_never_begins(workers: Aside, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is replaced as well; who stops the server does not wait for it."""
    [one] = workers.workers
    os.kill(one.pid, signal.SIGSTOP)
    with monkeypatch.context() as now, pytest.raises(WorkError):
        now.setattr(module, "START_SECONDS", 0.1)
        await asked_of(workers)
    assert workers.replaced == 1
    [another] = workers.workers
    os.kill(another.pid, signal.SIGSTOP)
    asking = asyncio.create_task(asked_of(workers))
    await until(lambda: not workers.idle)
    await workers.stop()
    with pytest.raises(WorkError):
        await asking
    assert another.process.returncode == -signal.SIGKILL


async def asked_of(workers: Aside) -> Ruling:
    """What a worker says of a large pod."""
    return await workers.review("team", KnownPolicies(), Question("mutate"), encoded(review(vast())), FOREVER)


async def test_memory_is_bounded(workers: Aside) -> None:
    """An object that is all structure is judged or refused, and its memory is given back: the next is answered."""
    by = Reviewer(Fixed(DEFAULT_TEAM), workers)  # type: ignore[arg-type]
    evil = pod()
    evil["spec"]["containers"] = "CONTAINERS"
    structure = b"[" + b",".join([b'{"resources":{"a":[[],[],[],[]]}}'] * 220_000) + b"]"
    response = await asked(by, encoded(review(evil)).replace(b'"CONTAINERS"', structure))
    assert response["allowed"] in (True, False)
    assert (await asked(by, review(vast())))["allowed"]
    await until(lambda: all(resident(one.pid) < worker.TIRED + (32 << 20) for one in workers.workers))


def resident(pid: int) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_who_goes_away_leaves_the_slot_to_the_work(workers: Aside) -> None:
    """Work that began is finished, and only then has the next one the slot: cancelling buys nobody more workers."""
    held, question, body = KnownPolicies(), Question("mutate"), encoded(review(vast()))
    asking = [asyncio.create_task(workers.review("team", held, question, body, FOREVER)) for _ in range(5)]
    await until(lambda: workers.lanes.busy == 1)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    assert workers.lanes.waiting == 0
    assert (await workers.review("team", held, question, body, FOREVER)).answer.status == 200
    assert (workers.lanes.busy, workers.replaced) == (0, 0)


async def test_workers_end_with_the_server() -> None:
    """Nothing is left behind."""
    made = Aside(TERMS, 2)
    await made.start()
    processes = [one.process for one in made.workers]
    await made.stop()
    assert [process.returncode for process in processes] == [0, 0]


def test_rules_are_forgotten_when_told() -> None:
    """What the server says a worker need not keep is gone."""
    desk = Desk()
    rules = module.jobs.rules(KnownPolicies())
    body = bytearray(encoded(review(config_map(), namespace="a")))
    desk.do(Review("a", 1, Question("mutate"), rules), body)
    desk.do(Review("b", 1, Question("mutate"), rules, ("a",)), body)
    assert desk.namespaces == {"b"}


def test_problems_are_said() -> None:
    """A policy that can't be accepted comes back with its first problem."""
    broken = policy("broken", rule(without("a"), labels={"not a key!": "x"}))
    assert parsed(encoded(broken), ()).problem.startswith("spec.rules[0].policyAction.updatedLabels[not a key!]")
