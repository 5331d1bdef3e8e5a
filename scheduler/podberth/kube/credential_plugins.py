"""The `kubernetes` package carries out what takes more than a kubeconfig: auth providers (gcp, oidc) and exec plugins.

What it reads once and never again is renewed by `kubeconfig`. Its complaints are about Python objects; here each
becomes one line that says where and what was expected.
"""

# mypy: allow-untyped-calls
# (kubernetes.config says that it is typed, and is not)

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader
from msgspec import Struct

from podberth.kube.errors import ConfigError, one_line

EXPIRY_SKEW = 10.0  # s; renew an exec plugin's token this long before it ends


def provided(provider: Mapping[str, Any], server: str, where: str) -> str | None:
    """Return Authorization's value from an auth provider; None: it has none. Raises ConfigError."""
    config = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": server}}],
        "users": [{"name": "one", "user": {"auth-provider": provider}}],
    }
    found = Configuration()
    try:
        KubeConfigLoader(config).load_and_set(found)
    except ConfigException as error:
        raise ConfigError(f"{where}: {one_line(str(error))}") from error
    except OSError as error:
        raise ConfigError(f"{where}: {one_line(error.strerror or str(error))}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f": {one_line(str(error))}" if isinstance(error, ValueError) else ""
        raise ConfigError(f"{where}: expected a user as kubectl reads it{why}") from error
    header = found.get_api_key_with_prefix("BearerToken")
    return None if header is None else str(header).strip()


class Issued(Struct, frozen=True):
    """A token, or a certificate with its key (PEM), or both; `good_for`: seconds to rely on them, None: ever."""

    token: str | None
    certificate: str | None
    key: str | None
    good_for: float | None


def run_exec(plugin: Mapping[str, Any], cluster: Mapping[str, Any], base: Path, where: str) -> Issued:
    """Run a plugin (client.authentication.k8s.io) for a cluster; return what it issues. `base`: where it runs.

    Raises ConfigError.
    """
    try:
        status = ExecProvider(ConfigNode("exec", plugin), str(base), ConfigNode("cluster", cluster)).run()
    except ConfigException as error:
        raise ConfigError(f"{where}: {one_line(str(error).removeprefix('exec: '))}") from error
    except OSError as error:
        hint = plugin.get("installHint")
        why = error.strerror or "it could not be run"
        raise ConfigError(f"{where}: {why}{f' ({one_line(hint)})' if hint else ''}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # The package's own: it takes any answer for an ExecCredential, and at a terminal it has no stderr to quote.
        raise ConfigError(f"{where}: it failed, or printed no ExecCredential") from error
    if not isinstance(status, dict):
        raise ConfigError(f"{where}: expected a status with a token or a certificate")
    certificate, key, token = issued = [status.get(w) for w in ("clientCertificateData", "clientKeyData", "token")]
    if not all(isinstance(one, str | None) for one in issued):
        raise ConfigError(f"{where}: expected token, clientCertificateData and clientKeyData as text")
    if bool(certificate) != bool(key):
        raise ConfigError(f"{where}: expected clientCertificateData and clientKeyData together")
    if not token and not certificate:
        raise ConfigError(f"{where}: expected a token or clientCertificateData in its status")
    good_for: float | None = None
    if ends := status.get("expirationTimestamp"):
        try:
            good_for = (parse_rfc3339(ends) - datetime.now(UTC)).total_seconds() - EXPIRY_SKEW
        except (ValueError, AttributeError, TypeError) as error:
            raise ConfigError(f"{where}: expected expirationTimestamp as RFC 3339, found {json.dumps(ends)}") from error
    return Issued(token, certificate, key, good_for)
