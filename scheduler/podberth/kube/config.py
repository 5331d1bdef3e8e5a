"""Find the API server and the credentials: in the pod we run in, or in a kubeconfig.

`kubeconfig` checks the shape first, so that every complaint is one line that names the file and what was expected;
`settings` reads what is plain, the `kubernetes` package the rest (`packaged`). What would be read once and never again
is renewed here: token files, exec plugins, and the kubeconfig itself after a 401. The result goes to `client`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from podberth import __version__
from podberth.kube.connection import Connection, Tls, goes_direct
from podberth.kube.credentials import Credential, Credentials
from podberth.kube.errors import ConfigError, described
from podberth.kube.kubeconfig import Selected, select, written
from podberth.kube.settings import ServerSettings, plain, proxies, settings

TOKEN_FILE_SECONDS = 10.0  # client-go re-reads about once a minute; a read costs less than one request
USER_AGENT = f"berth/{__version__}"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = "in-cluster"
"""Where the connection of a process in a pod comes from."""
SERVICE_HOST, SERVICE_PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """The connection to use: the file that is named, else $KUBECONFIG, else ~/.kube/config if there is one, else the
    pod's own service account (client-go's order). Raises ConfigError, one line.
    """
    if kubeconfig:
        return from_kubeconfig([kubeconfig], context)
    listed = [name for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        there = [name for name in listed if Path(name).expanduser().exists()]
        if not there:
            raise ConfigError(f"KUBECONFIG={os.pathsep.join(listed)}: no such file")
        return from_kubeconfig(there, context)
    home = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    if home.exists():
        return from_kubeconfig([str(home)], context)
    if environ.get(SERVICE_HOST):
        if context:
            raise ConfigError(f"context {written(context)}: there is no kubeconfig, only the pod's own service account")
        return in_cluster(environ=environ)
    raise ConfigError(f"no cluster to talk to: no kubeconfig named, no KUBECONFIG, no {home}, and not in a pod")


def in_cluster(
    *,
    token_file: str = str(SERVICE_ACCOUNT / "token"),
    ca_file: str = str(SERVICE_ACCOUNT / "ca.crt"),
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """The API server as a pod sees it, with the service account's (rotating) token and CA. Raises ConfigError."""
    where = f"in-cluster configuration ({token_file}, {ca_file})"
    for word in (SERVICE_HOST, SERVICE_PORT):
        if not environ.get(word):
            raise ConfigError(f"{where}: {word} is not set")
    for name in (token_file, ca_file):
        if not Path(name).is_file():
            raise ConfigError(f"{where}: {name} does not exist; expected the service account's files")
    name = environ[SERVICE_HOST]
    host = f"https://{f'[{name}]' if ':' in name else name}:{environ[SERVICE_PORT]}"
    credentials = Credentials(partial(_token_file, Path(token_file)))
    credentials.renew()
    tls = Tls(ca_file=ca_file)
    tls.context()
    own_namespace = Path(token_file).with_name("namespace")
    return Connection(
        host=host,
        credentials=credentials,
        tls=tls,
        proxy=_proxy(host, None, "in-cluster configuration"),
        user_agent=USER_AGENT,
        namespace=own_namespace.read_text("utf-8").strip() if own_namespace.is_file() else "default",
        source=IN_CLUSTER,
    )


def serving_port(
    server: str,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    token_file: str | None = None,
    ca_file: str | None = None,
    server_name: str | None = None,
    verify: bool = True,
) -> Connection:
    """The serving port of one of our own processes, with the token in a file, or else with what `connect` finds.

    `ca_file`: who signed its certificate; without it, the system's CAs. Raises ConfigError.
    """
    parts = urlsplit(server)
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigError(f"{server}: expected https://HOST:PORT")
    if token_file is not None:
        credentials = Credentials(partial(_token_file, Path(token_file)))
        credentials.renew()
        found = Connection(server, credentials)
        tls = Tls(ca_file=ca_file, verify=verify)
    else:
        found = connect(kubeconfig, context)
        tls = (found.tls or Tls()).elsewhere(ca_file=ca_file, verify=verify)
    tls.context()
    # Neither the cluster's proxy nor an impersonation is meant for this server.
    return replace(
        found, host=server.rstrip("/"), tls=tls, server_name=server_name, proxy=None, headers=(), source=server
    )


def from_kubeconfig(paths: list[str], context: str | None = None) -> Connection:
    """One context (the current one by default) of one kubeconfig, or of several merged as kubectl merges them."""
    chosen = select(paths, context)
    found = _settings(chosen)
    tls: Tls | None = None
    if found.host.startswith("https://"):
        tls = Tls(ca_file=found.ca_file, cert_file=found.cert_file, key_file=found.key_file, verify=found.verify)
    credentials = Credentials(_source(paths, context, chosen, tls))
    credentials.renew()
    if tls is not None:
        try:
            tls.context()
        except ConfigError as error:
            raise ConfigError(f"{chosen.where}: {error}") from error
    return Connection(
        host=found.host,
        credentials=credentials,
        tls=tls,
        server_name=chosen.cluster.get("tls-server-name"),
        proxy=_proxy(found.host, chosen.cluster.get("proxy-url"), chosen.where),
        user_agent=USER_AGENT,
        namespace=chosen.namespace,
        source=chosen.where,
        headers=chosen.impersonation(),
    )


def _settings(chosen: Selected) -> ServerSettings:
    if plain(chosen):
        return settings(chosen)
    from podberth.kube import packaged  # slow to import, and most users have no need of it

    return packaged.settings(chosen)


def _source(paths: list[str], context: str | None, chosen: Selected, tls: Tls | None) -> Callable[[], Credential]:
    """Return what renews the header: a token file (which wins over a token, as in client-go), a plugin, or the file
    itself.
    """
    if name := chosen.user.get("tokenFile"):
        return partial(_token_file, chosen.user_base / name)
    if chosen.user.get("exec") and not chosen.user.get("token"):
        from podberth.kube import packaged

        return partial(packaged.run_exec, chosen, tls)

    def reread() -> Credential:
        found = _settings(select(paths, context))
        if tls is not None:
            tls.present(found.cert_file, found.key_file)
        return Credential(found.header)

    return reread


def _token_file(path: Path) -> Credential:
    try:
        token = path.read_text("ascii").strip()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; expected a token") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a token ({described(error)})") from error
    if not token or len(token.split()) != 1:
        raise ConfigError(f"{path}: expected one token, found {'more' if token else 'nothing'}")
    return Credential(f"Bearer {token}", TOKEN_FILE_SECONDS)


def _proxy(host: str, own: str | None, where: str) -> str | None:
    """The proxy to use: the cluster's own (whatever NO_PROXY says), else the environment's unless exempt."""
    general, exempt = proxies(host)
    proxy = own or general
    if not proxy or (own is None and goes_direct(host, exempt)):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        word = "proxy-url" if own else "HTTPS_PROXY"
        raise ConfigError(f"{where}: {word}: expected an http or https proxy, found {urlsplit(proxy).scheme}")
    return proxy
