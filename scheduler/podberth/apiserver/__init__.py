"""An embedded Kubernetes API server for the demo and the fast tests: real REST wire, no etcd, no Go.

It imports nothing else of Berth, so that a client and this server can't share a bug. What it promises is what
`tests/contract/` proves on it and on the real kube-apiserver alike.

What it leaves out, on purpose: answers in protobuf, Tables, OpenAPI and the short names of kinds (kubectl is no client
of it), TLS, webhooks that are named by a Service, defaults of kinds that neither the demo nor a test creates,
managedFields and field ownership (server-side apply merges), dropping of unknown fields of built-in kinds, CEL (rules
of CRDs, matchConditions), lists of the past (resourceVersionMatch), initial events of a watch as a list
(sendInitialEvents), conversion between CRD versions, matchPolicy beyond the same version, quotas of other things than
pods, what the quota controller counts, service addresses, protection finalizers of volumes, expiry of events. Of all
controllers it does only the namespace controller's last step.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podberth.apiserver.rules.status import StatusError
    from podberth.apiserver.server import ApiServer, Connection, DropConnectionError
    from podberth.apiserver.users import AuditEntry, User

__all__ = ["ApiServer", "AuditEntry", "Connection", "DropConnectionError", "StatusError", "User"]

_MODULES = {
    "ApiServer": "server",
    "AuditEntry": "users",
    "Connection": "server",
    "DropConnectionError": "server",
    "StatusError": "rules.status",
    "User": "users",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: commands that judge files need the rules, and not the server with its aiohttp."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"podberth.apiserver.{_MODULES[name]}"), name)
