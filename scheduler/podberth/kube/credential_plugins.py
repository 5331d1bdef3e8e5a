"""The `kubernetes` package reads what takes more than a kubeconfig: auth providers (gcp, oidc) and exec plugins.

What it reads once and never again is renewed by `kubeconfig`. Its complaints are about Python objects; here each
becomes one line that names the file and what was expected.
"""

# mypy: allow-untyped-calls
# (kubernetes.config says that it is typed, and is not)

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime
from typing import Any

from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from podberth.kube.connection import Credential, Tls
from podberth.kube.errors import ConfigError, one_line
from podberth.kube.kubeconfig import Selected, ServerSettings, as_file, written

EXPIRY_SKEW = 10.0  # s; renew an exec plugin's token this long before it ends


def settings(chosen: Selected) -> ServerSettings:
    """Have the package read all but token files and exec plugins. Raises ConfigError."""
    found = Configuration()
    try:
        loader = KubeConfigLoader(_merged(chosen), active_context=chosen.context, config_base_path=None)
        loader.load_and_set(found)
    except ConfigException as error:
        raise ConfigError(f"{chosen.where}: {one_line(str(error))}") from error
    except OSError as error:
        raise ConfigError(f"{chosen.where}: {one_line(error.strerror or str(error))}") from error
    except (ValueError, LookupError, TypeError) as error:
        why = f": {one_line(str(error))}" if isinstance(error, ValueError) else ""
        raise ConfigError(f"{chosen.where}: expected a user or cluster as kubectl reads it{why}") from error
    header = found.get_api_key_with_prefix("BearerToken")
    return ServerSettings(
        host=found.host,
        ca_file=found.ssl_ca_cert,
        cert_file=found.cert_file,
        key_file=found.key_file,
        verify=found.verify_ssl,
        header=None if header is None else header.strip(),
    )


def _merged(chosen: Selected) -> Any:
    merged = KubeConfigMerger(os.pathsep.join(chosen.paths)).config
    for user in merged["users"].value if merged.value.get("users") else []:
        if user["name"] == chosen.user_name:
            inner = user.value["user"] or {}
            for word in ("exec", "tokenFile", *(("token",) if chosen.user.get("tokenFile") else ())):
                inner.pop(word, None)
            _name_files(inner, ("client-certificate", "client-key"))
    for cluster in merged["clusters"].value:
        if cluster["name"] == chosen.cluster_name:
            _name_files(cluster.value["cluster"] or {}, ("certificate-authority",))
    return merged


def _name_files(entry: dict[str, Any], words: tuple[str, ...]) -> None:
    """Keys and certificates as files of ours: the package would write them to temporary files of its own."""
    for word in words:
        if data := entry.pop(f"{word}-data", None):
            entry[word] = as_file(base64.b64decode(data))


def run_exec(chosen: Selected, tls: Tls | None) -> Credential:
    """Run the plugin (client.authentication.k8s.io), take its token or certificate and when that ends.

    Raises ConfigError.
    """
    nodes = KubeConfigMerger(os.pathsep.join(chosen.paths)).config
    cluster = nodes["clusters"].get_with_name(chosen.cluster_name)["cluster"]
    plugin = nodes["users"].get_with_name(chosen.user_name)["user"]["exec"]
    where = f"{chosen.where}: exec plugin {written(plugin.value.get('command'))}"
    try:
        status = ExecProvider(plugin, str(chosen.user_base), cluster).run()
    except ConfigException as error:
        raise ConfigError(f"{where}: {one_line(str(error).removeprefix('exec: '))}") from error
    except OSError as error:
        hint = plugin.value.get("installHint")
        raise ConfigError(f"{where}: {error.strerror}{f' ({one_line(hint)})' if hint else ''}") from error
    if not isinstance(status, dict):
        raise ConfigError(f"{where}: expected a status with a token or a certificate")
    certificate, key, token = (status.get(w) for w in ("clientCertificateData", "clientKeyData", "token"))
    if bool(certificate) != bool(key):
        raise ConfigError(f"{where}: expected clientCertificateData and clientKeyData together")
    if not token and not certificate:
        raise ConfigError(f"{where}: expected a token or clientCertificateData in its status")
    if certificate and key and tls is not None:
        tls.present(as_file(certificate.encode()), as_file(key.encode()))
    good_for: float | None = None
    if ends := status.get("expirationTimestamp"):
        try:
            good_for = (parse_rfc3339(ends) - datetime.now(UTC)).total_seconds() - EXPIRY_SKEW
        except (ValueError, AttributeError, TypeError) as error:
            raise ConfigError(f"{where}: expected expirationTimestamp as RFC 3339, found {json.dumps(ends)}") from error
    return Credential(f"Bearer {token}" if token else None, good_for)
