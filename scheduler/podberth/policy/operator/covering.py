"""The namespaces that the webhook is asked about, as the webhook configurations say, and since when."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError
from podberth.policy.spec import GROUP

ROOT = "/apis/admissionregistration.k8s.io/v1"
PATHS = (f"{ROOT}/mutatingwebhookconfigurations", f"{ROOT}/validatingwebhookconfigurations")
NAME_LABEL = "kubernetes.io/metadata.name"
OF_POLICIES = f".metadatapolicy.{GROUP}"
"""The end of the names of those entries of a webhook configuration that enforce policies (`admission.webhooks`)."""

log = structlog.get_logger("enforcer")


class _Expression(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _Hook(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace_selector: _Selector | None = None


class Configuration(msgspec.Struct):
    """The fields that are read of a webhook configuration."""

    webhooks: list[_Hook] | None = None


_configuration = msgspec.json.Decoder(Configuration).decode


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
                found = read_answer(await self._client.get(f"{path}/{self._name}"), _configuration)
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                if error.status == 403 and not self._complained:
                    self._complained = True
                    log.error("the webhook configurations can't be read", name=self._name, error=str(error)[:300])
                found = Configuration()
            if not covers(found, namespace):
                self.forget(namespace)
                return 0.0
        now = self._monotonic()
        return now - self._since.setdefault(namespace, now)

    def forget(self, namespace: str) -> None:
        """Nobody waits for this namespace any more."""
        self._since.pop(namespace, None)


def covers(configuration: Configuration, namespace: str) -> bool:
    """Return whether the webhook is asked about this namespace; no for a selector that the registration did not write.

    Entries of other names are about other things than policies, also those that an admission server newer than this
    operator may write.
    """
    hooks = [hook for hook in configuration.webhooks or () if hook.name.endswith(OF_POLICIES)]
    return bool(hooks) and all(_selects(hook.namespace_selector, namespace) for hook in hooks)


def _selects(selector: _Selector | None, namespace: str) -> bool:
    if selector is None:
        return True
    if selector.match_labels:
        return False
    return all(
        one.key == NAME_LABEL and one.operator == "NotIn" and namespace not in (one.values or ())
        for one in selector.match_expressions or ()
    )
