"""Find the API server and the credentials: in the pod we run in, or in a kubeconfig.

The `kubernetes` package reads them (contexts, merged files, inline certificates, basic auth, gcp and oidc, exec
plugins); what it reads once and never again is renewed here: token files, exec plugins, and the kubeconfig itself
after a 401. Its own complaints are about Python objects, so `kubeconfig` checks the shape first, and every complaint
is one line that names the file and what was expected. The result goes to `client`.
"""

# mypy: allow-untyped-calls
# (kubernetes.config says that it is typed, and is not)

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from scheduler import __version__
from scheduler.kube.connection import Connection, Tls, goes_direct
from scheduler.kube.credentials import Credential, Credentials
from scheduler.kube.errors import ConfigError, one_line
from scheduler.kube.kubeconfig import Selected, select

TOKEN_FILE_SECONDS = 10.0  # client-go re-reads about once a minute; a read costs less than one request
EXPIRY_SKEW = 10.0  # s; renew an exec plugin's token this long before it ends
USER_AGENT = f"berth/{__version__}"


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    user_agent: str = USER_AGENT,
) -> Connection:
    """The connection to use: the file that is named, else $KUBECONFIG, else ~/.kube/config if there is one, else the
    pod's own service account (client-go's order). Raises ConfigError, one line.
    """
    if kubeconfig:
        return from_kubeconfig([kubeconfig], context, user_agent=user_agent)
    listed = [name for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        there = [name for name in listed if Path(name).expanduser().exists()]
        if not there:
            raise ConfigError(f"KUBECONFIG={os.pathsep.join(listed)}: no such file")
        return from_kubeconfig(there, context, user_agent=user_agent)
    home = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    if home.exists():
        return from_kubeconfig([str(home)], context, user_agent=user_agent)
    if environ.get(SERVICE_HOST_ENV_NAME):
        if context:
            raise ConfigError(f"context {context!r}: there is no kubeconfig, only the pod's own service account")
        return in_cluster(environ=environ, user_agent=user_agent)
    raise ConfigError(f"no cluster to talk to: no kubeconfig named, no KUBECONFIG, no {home}, and not in a pod")


def in_cluster(
    *,
    token_file: str = SERVICE_TOKEN_FILENAME,
    ca_file: str = SERVICE_CERT_FILENAME,
    environ: Mapping[str, str] = os.environ,
    user_agent: str = USER_AGENT,
) -> Connection:
    """The API server as a pod sees it, with the service account's (rotating) token and CA."""
    settings = Configuration()
    try:
        InClusterConfigLoader(token_file, ca_file, try_refresh_token=False, environ=environ).load_and_set(settings)
    except ConfigException as error:
        raise ConfigError(f"in-cluster configuration ({token_file}, {ca_file}): {error}") from error
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}; expected the service account's files") from error
    credentials = Credentials(partial(_token_file, Path(token_file)))
    credentials.renew()
    tls = Tls(ca_file=ca_file)
    tls.context()
    own_namespace = Path(token_file).with_name("namespace")
    return Connection(
        host=settings.host,
        credentials=credentials,
        tls=tls,
        proxy=_proxy(settings, None, "in-cluster configuration"),
        user_agent=user_agent,
        namespace=own_namespace.read_text("utf-8").strip() if own_namespace.is_file() else "default",
        source="in-cluster",
    )


def from_kubeconfig(paths: list[str], context: str | None = None, *, user_agent: str = USER_AGENT) -> Connection:
    """One context (the current one by default) of one kubeconfig, or of several merged as kubectl merges them."""
    chosen = select(paths, context)
    settings = _settings(chosen)
    tls: Tls | None = None
    if settings.host.startswith("https://"):
        tls = Tls(
            ca_file=settings.ssl_ca_cert,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            verify=settings.verify_ssl,
        )
    credentials = Credentials(_source(paths, context, chosen, tls))
    credentials.renew()
    if tls is not None:
        try:
            tls.context()
        except ConfigError as error:
            raise ConfigError(f"{chosen.where}: {error}") from error
    return Connection(
        host=settings.host,
        credentials=credentials,
        tls=tls,
        server_name=settings.tls_server_name,
        proxy=_proxy(settings, chosen.cluster.get("proxy-url"), chosen.where),
        user_agent=user_agent,
        namespace=chosen.namespace,
        source=chosen.where,
        headers=chosen.impersonation(),
    )


def _settings(chosen: Selected) -> Configuration:
    """Have the package read all but what `_source` renews (token files and exec plugins)."""
    settings = Configuration()
    try:
        loader = KubeConfigLoader(_merged(chosen), active_context=chosen.context, config_base_path=None)
        loader.load_and_set(settings)
    except ConfigException as error:
        raise ConfigError(f"{chosen.where}: {one_line(str(error))}") from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"{chosen.where}: {one_line(f'{type(error).__name__}: {error}')}") from error
    return settings


def _merged(chosen: Selected) -> Any:
    merged = KubeConfigMerger(os.pathsep.join(chosen.paths)).config
    for user in merged["users"].value if merged.value.get("users") else []:
        if user["name"] == chosen.user_name:
            inner = user.value["user"] or {}
            for word in ("exec", "tokenFile", *(("token",) if chosen.user.get("tokenFile") else ())):
                inner.pop(word, None)
    return merged


def _source(paths: list[str], context: str | None, chosen: Selected, tls: Tls | None) -> Callable[[], Credential]:
    """What renews the header: a token file (which wins over a token, as in client-go), a plugin, or the file itself."""
    if name := chosen.user.get("tokenFile"):
        return partial(_token_file, chosen.user_base / name)
    if chosen.user.get("exec") and not chosen.user.get("token"):
        return partial(_exec, paths, chosen, tls)

    def reread() -> Credential:
        settings = _settings(select(paths, context))
        if tls is not None:
            tls.present(settings.cert_file, settings.key_file)
        header = settings.get_api_key_with_prefix("BearerToken")
        return Credential(None if header is None else header.strip())

    return reread


def _token_file(path: Path) -> Credential:
    try:
        token = path.read_text("ascii").strip()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; expected a token") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a token ({error})") from error
    if not token or len(token.split()) != 1:
        raise ConfigError(f"{path}: expected one token, found {'more' if token else 'nothing'}")
    return Credential(f"Bearer {token}", TOKEN_FILE_SECONDS)


def _exec(paths: list[str], chosen: Selected, tls: Tls | None) -> Credential:
    """Run the plugin (client.authentication.k8s.io), take its token or certificate and when that ends."""
    nodes = KubeConfigMerger(os.pathsep.join(chosen.paths)).config
    cluster = nodes["clusters"].get_with_name(chosen.cluster_name)["cluster"]
    plugin = nodes["users"].get_with_name(chosen.user_name)["user"]["exec"]
    where = f"{chosen.where}: exec plugin {plugin.value.get('command')!r}"
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
    if certificate and tls is not None:
        tls.present(_as_file(status, "clientCertificateData"), _as_file(status, "clientKeyData"))
    good_for: float | None = None
    if ends := status.get("expirationTimestamp"):
        try:
            good_for = (parse_rfc3339(ends) - datetime.now(UTC)).total_seconds() - EXPIRY_SKEW
        except (ValueError, AttributeError, TypeError) as error:
            raise ConfigError(f"{where}: expected expirationTimestamp as RFC 3339, found {ends!r}") from error
    return Credential(f"Bearer {token}" if token else None, good_for)


def _as_file(status: dict[str, Any], word: str) -> str:
    """OpenSSL wants files: a private temporary one that goes when we go."""
    name: str = FileOrData(status, None, data_key_name=word, base64_file_content=False).as_file()
    return name


def _proxy(settings: Configuration, own: str | None, where: str) -> str | None:
    """The proxy to use: the cluster's own (whatever NO_PROXY says), else the environment's unless exempt."""
    proxy: str | None = own or settings.proxy
    if not proxy or (own is None and goes_direct(settings.host, settings.no_proxy or "")):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        word = "proxy-url" if own else "HTTPS_PROXY"
        raise ConfigError(f"{where}: {word}: expected an http or https proxy, found {urlsplit(proxy).scheme}")
    return proxy
