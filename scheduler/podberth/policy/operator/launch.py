"""Run the operator until it is told to end; or audit once, and say what was found."""

from __future__ import annotations

import time

import structlog

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.writes import meta_time
from podberth.policy.objects import JsonObject
from podberth.policy.operator.audit import BURST, QPS, Result, report
from podberth.policy.operator.judge import bounded
from podberth.policy.operator.replica import Operator
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.vitals import endpoints
from podberth.policy.spec import Policies
from podberth.service.run import until_told
from podberth.service.serving import Address

log = structlog.get_logger("operator")


async def operate(connection: Connection, settings: Settings, listen: Address | None = None) -> None:
    """Reconcile until SIGTERM or SIGINT; `listen`: where health and metrics are served.

    Raises ServingError.
    """
    async with Client(connection) as client, Client(connection, qps=QPS, burst=BURST) as slow:
        operator = Operator(client, slow, settings)
        await until_told(
            operator.run,
            client,
            listen=listen,
            endpoints=endpoints(operator, settings.lease),
            namespace=settings.namespace,
            watched=settings.watched or "all",
        )
        log.info("stopped")


async def audit_once(connection: Connection, settings: Settings) -> JsonObject:
    """Audit every namespace that has policies, now, and write nothing.

    Raises ApiError and Unreachable when policies can't be listed.
    """
    async with Client(connection) as client, Client(connection, qps=QPS, burst=BURST) as slow:
        operator = Operator(client, slow, settings)
        results: dict[str, Result] = {}
        for namespace in await operator.reconciler.namespaces():
            stored = bounded((await operator.reconciler.read(namespace)).policies)
            policies = Policies(one.policy for one in stored if one.policy is not None)
            results[namespace] = await operator.audit.run(namespace, policies)
            for problem in dict.fromkeys(one.unread for one in stored if one.unread):
                results[namespace].problems.append(problem)
        return report(results, meta_time(time.time()))
