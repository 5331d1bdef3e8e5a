"""Whether the webhook is asked about a namespace, as the webhook configurations say, and for how long it has been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError
from scheduler.policy.spec import GROUP

ROOT = "/apis/admissionregistration.k8s.io/v1"
PATHS = (f"{ROOT}/mutatingwebhookconfigurations", f"{ROOT}/validatingwebhookconfigurations")
NAME_LABEL = "kubernetes.io/metadata.name"
OF_POLICIES = f".metadatapolicy.{GROUP}"
"""How the names of those entries of a webhook configuration end that enforce policies (`admission.webhooks`)."""

log = structlog.get_logger("enforcer")
Object = dict[str, Any]


class Covering:
    """`name` is that of both configurations."""

    def __init__(self, client: Client, name: str, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._name = name
        self._monotonic = monotonic
        self._complained = False
        self._since: dict[str, float] = {}

    async def since(self, namespace: str) -> float:
        """Seconds for which both configurations have covered a namespace as far as we saw; 0 when they do not.

        Raises ApiError and Unreachable.
        """
        for path in PATHS:
            try:
                found: Object = msgspec.json.decode(await self._client.get(f"{path}/{self._name}"))
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                if error.status == 403 and not self._complained:
                    self._complained = True
                    log.error("the webhook configurations can't be read", name=self._name, error=str(error)[:300])
                found = {}
            if not covers(found, namespace):
                self.forget(namespace)
                return 0.0
        now = self._monotonic()
        return now - self._since.setdefault(namespace, now)

    def forget(self, namespace: str) -> None:
        """Nobody waits for this namespace any more."""
        self._since.pop(namespace, None)


def covers(configuration: Object, namespace: str) -> bool:
    """Whether the webhook is asked about this namespace; no for a selector that the registration did not write.

    Entries of other names are about other things than policies, also those that an admission server newer than this
    operator may write.
    """
    hooks = [hook for hook in configuration.get("webhooks") or [] if str(hook.get("name", "")).endswith(OF_POLICIES)]
    return bool(hooks) and all(_selects((hook.get("namespaceSelector") or {}), namespace) for hook in hooks)


def _selects(selector: Object, namespace: str) -> bool:
    if selector.get("matchLabels"):
        return False
    return all(
        one.get("key") == NAME_LABEL and one.get("operator") == "NotIn" and namespace not in (one.get("values") or [])
        for one in selector.get("matchExpressions") or []
    )
