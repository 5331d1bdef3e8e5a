"""Find the API server and the credentials: in the pod we run in, or in a kubeconfig.

`connect` follows client-go's order. The shape of a kubeconfig is checked first (`select`), so that every complaint is
one line that names the file and what was expected. `settings` reads what is plain: tokens, certificates and passwords.
Auth providers and exec plugins are left to the `kubernetes` package (`credential_plugins`): importing that costs a
third of a second and 20 MB, which most processes can do without. What would be read once and never again is renewed:
token files, exec plugins, and the kubeconfig itself after a 401.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import yaml
from msgspec import Struct, structs

from podberth import __version__
from podberth.kube.connection import Connection, Credential, Credentials, Pem, Tls
from podberth.kube.errors import ConfigError, described, one_line

TOKEN_FILE_SECONDS = 10.0  # client-go re-reads about once a minute; a read costs less than one request
USER_AGENT = f"berth/{__version__}"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = "in-cluster"
"""The `source` of a connection that a process in a pod has."""
SERVICE_HOST, SERVICE_PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
_DEEPEST = 100
"""Levels that a kubeconfig may have: its own fields need eight, extensions may hold anything."""
GONE_PROVIDERS = "client-go no longer knows it; expected an exec plugin instead"
_MOST_MERGED = 10_000
"""Entries that its mappings may take over from others, in all."""
Kind = TypeVar("Kind", list[Any], dict[Any, Any])
_IN_HEADER_NAMES = "!#$&'*+-.^_`|~"
"""What the name of a header may have in it besides letters and digits, and is not % (legalHeaderKeyBytes)."""


def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """Return the connection to use: by the file that is named, else $KUBECONFIG, else ~/.kube/config if there is one,
    else by the pod's own service account (client-go's order). Raises ConfigError, one line.
    """
    if paths := _paths(kubeconfig, environ):
        return from_kubeconfig(paths, context)
    if environ.get(SERVICE_HOST):
        if context:
            raise ConfigError(f"context {written(context)}: there is no kubeconfig, only the pod's own service account")
        return in_cluster(environ=environ)
    home = _home(environ)
    raise ConfigError(f"no cluster to talk to: no kubeconfig named, no KUBECONFIG, no {home}, and not in a pod")


def context_names(kubeconfig: str | None = None, *, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the contexts of the files that `connect` would read. Raises ConfigError."""
    paths = [_file(name) for name in _paths(kubeconfig, environ)]
    return list(_entries([(path, _document(path)) for path in paths], "context"))


def _paths(kubeconfig: str | None, environ: Mapping[str, str]) -> list[str]:
    """Return the kubeconfigs to read; none: there is none. Raises ConfigError."""
    if kubeconfig:
        return [kubeconfig]
    listed = [name for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        there = [name for name in listed if _file(name).exists()]
        if not there:
            raise ConfigError(f"KUBECONFIG={os.pathsep.join(listed)}: no such file")
        return there
    home = _home(environ)
    return [str(home)] if home.exists() else []


def _home(environ: Mapping[str, str]) -> Path:
    return _file(environ.get("HOME") or "~") / ".kube" / "config"


def _file(name: str) -> Path:
    """Return the path of a file. `~` is our home directory, `~bob` that of bob, and a name where there is no bob."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (what `Path` has for this raises)


def in_cluster(
    *,
    token_file: str = str(SERVICE_ACCOUNT / "token"),
    ca_file: str = str(SERVICE_ACCOUNT / "ca.crt"),
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """Return the API server as a pod sees it, with the service account's (rotating) token and CA.

    Raises ConfigError.
    """
    where = f"in-cluster configuration ({token_file}, {ca_file})"
    for word in (SERVICE_HOST, SERVICE_PORT):
        if not environ.get(word):
            raise ConfigError(f"{where}: {word} is not set")
    for name in (token_file, ca_file):
        if not Path(name).is_file():
            raise ConfigError(f"{where}: {name} does not exist; expected the service account's files")
    name = environ[SERVICE_HOST]
    host = f"https://{f'[{name}]' if ':' in name else name}:{environ[SERVICE_PORT]}"
    _check_url(host, f"{where}: {host}")
    credentials = Credentials(partial(_token_file, Path(token_file)))
    credentials.renew()
    tls = Tls(ca=ca_file)
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
    """Return the serving port of one of our own processes, with the token in a file, or else with what `connect` finds.

    `ca_file`: who signed its certificate; without it, the system's CAs. Raises ConfigError.
    """
    _check_url(server, server)
    parts = urlsplit(server)
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigError(f"{server}: expected https://HOST:PORT")
    if token_file is not None:
        credentials = Credentials(partial(_token_file, Path(token_file)))
        credentials.renew()
        found = Connection(server, credentials)
        tls = Tls(ca=ca_file, verify=verify)
    else:
        found = connect(kubeconfig, context)
        tls = (found.tls or Tls()).elsewhere(ca=ca_file, verify=verify)
    tls.context()
    # Neither the cluster's proxy nor an impersonation is meant for this server.
    return replace(
        found, host=server.rstrip("/"), tls=tls, server_name=server_name, proxy=None, headers=(), source=server
    )


def from_kubeconfig(paths: list[str], context: str | None = None) -> Connection:
    """Return a context (the current one by default) of one kubeconfig, or of several merged as kubectl merges them."""
    chosen = select(paths, context)
    found = _settings(chosen)
    tls: Tls | None = None
    if found.host.startswith("https://"):
        tls = Tls(ca=found.ca, certificate=found.certificate, key=found.key, verify=found.verify)
    credentials = Credentials(_source(paths, chosen, tls))
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
    found = settings(chosen)
    if not (provider := chosen.user.get("auth-provider")):
        return found
    from podberth.kube.credential_plugins import provided  # slow to import, and most users have no need of it

    header = provided(provider, found.host, chosen.where)
    return found if header is None else structs.replace(found, header=header)


def _source(paths: list[str], chosen: Selected, tls: Tls | None) -> Callable[[], Credential]:
    """Return what renews the header: a token file (which wins over a token, as in client-go), a plugin, or the file
    itself.
    """
    if name := chosen.user.get("tokenFile"):
        return partial(_token_file, chosen.user_base / name)
    if chosen.user.get("exec") and not chosen.user.get("token"):
        return partial(_issued, chosen, tls)

    def reread() -> Credential:
        now = select(paths, chosen.context)  # whatever the current context is by now: a token is for one server
        if now.cluster["server"] != chosen.cluster["server"]:
            found, expected = (written(one.cluster["server"]) for one in (now, chosen))
            raise ConfigError(f"{now.where}: expected the server {expected}, as at the start, found {found}")
        given = _settings(now)
        if tls is not None:
            tls.present(given.certificate, given.key)
        return Credential(given.header)

    return reread


def _issued(chosen: Selected, tls: Tls | None) -> Credential:
    """Return what the user's exec plugin issues; a certificate is presented from now on."""
    from podberth.kube.credential_plugins import run_exec

    plugin = chosen.user["exec"]
    where = f"{chosen.where}: exec plugin {written(plugin.get('command'))}"
    cluster = _with_its_ca(chosen) if plugin.get("provideClusterInfo") else {}
    found = run_exec(plugin, cluster, chosen.user_base, where)
    if found.certificate and found.key and tls is not None:
        tls.present(found.certificate.encode(), found.key.encode())
    return Credential(f"Bearer {found.token}" if found.token else None, found.good_for)


def _with_its_ca(chosen: Selected) -> dict[str, Any]:
    """Return the cluster as client-go tells a plugin of it: with the CA itself, not the name of its file."""
    cluster = {word: value for word, value in chosen.cluster.items() if word != "certificate-authority"}
    ca = _pem(chosen.cluster, "certificate-authority", chosen.cluster_base)
    if isinstance(ca, str):
        try:
            cluster["certificate-authority-data"] = base64.b64encode(Path(ca).read_bytes()).decode()
        except OSError as error:
            raise ConfigError(f"{ca}: expected the cluster's CA certificates ({described(error)})") from error
    return cluster


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
    """Return the proxy to use: the cluster's own (whatever NO_PROXY says), else the environment's unless exempt."""
    general, exempt = proxies(host)
    proxy = own or general
    if not proxy or (own is None and goes_direct(host, exempt)):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    word = "proxy-url" if own else f"{urlsplit(host).scheme.upper()}_PROXY"
    _check_url(proxy, f"{where}: {word}")  # without its text, which may have a password in it
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigError(f"{where}: {word}: expected an http or https proxy, found {urlsplit(proxy).scheme}")
    return proxy


# -- proxies ---------------------------------------------------------------------------------------------------------


def proxies(host: str) -> tuple[str | None, str]:
    """Return (the environment's proxy for a host, its NO_PROXY)."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None, ""
    from urllib.request import getproxies_environment  # it brings an HTTP client along, which no start needs

    found = getproxies_environment()
    return found.get("https" if host.startswith("https://") else "http"), found.get("no", "")


def goes_direct(host: str, no_proxy: str) -> bool:
    """Return whether NO_PROXY exempts this URL, by Go's rules (golang.org/x/net/http/httpproxy).

    Entries are `*`, addresses, CIDR ranges, names (with their subdomains) and `.name` (subdomains only), each with an
    optional port. localhost and loopback addresses are always exempt.
    """
    parts = urlsplit(host)
    name = (parts.hostname or "").rstrip(".").lower()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address(name)
    if name == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        if entry == "*":
            return True
        if entry and _exempts(entry, name, port, address):
            return True
    return False


def _exempts(entry: str, name: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry) is None:
        wanted, _, entry_port = entry.rpartition(":")
        if wanted and entry_port.isdigit():
            if int(entry_port) != port:
                return False
            entry = wanted.strip("[]")
    if (exact := _address(entry)) is not None:
        return exact == address
    entry = entry.removeprefix("*")
    return name.endswith(entry) if entry.startswith(".") else name == entry or name.endswith(f".{entry}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


# -- the files, and the context in them ------------------------------------------------------------------------------


class _TooDeepError(yaml.YAMLError):
    """More levels, or more merged entries, than any kubeconfig has."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML with a bound on its levels: what reads them calls itself for each, and C code ends with the stack."""

    _depth = 0
    _merged = 0

    def descend_resolver(self, node: yaml.Node | None, index: Any) -> None:
        """Called before each value is read."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _TooDeepError(f"expected a kubeconfig, found more than {_DEEPEST} levels in one another")

    def ascend_resolver(self) -> None:
        """Called after each value."""
        self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Take over what a mapping merges (`<<`): as often as aliases repeat it, which may be beyond all bounds."""
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(each, yaml.MappingNode):
                        self.flatten_mapping(each)
                        self._merged += len(each.value)
                        if self._merged > _MOST_MERGED:
                            raise _TooDeepError("expected a kubeconfig, its merge keys expand beyond all bounds")
        super().flatten_mapping(node)


@dataclass(frozen=True)
class Selected:
    """A context with its cluster and user as plain dicts, and the directories that their relative paths start from."""

    context: str
    namespace: str
    cluster: dict[str, Any]
    user_name: str
    user: dict[str, Any]
    user_base: Path
    cluster_base: Path
    where: str

    def impersonation(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of as, as-uid, as-groups and as-user-extra, unknown to the `kubernetes` package.

        Keys of as-user-extra are part of a header's name: what is not legal there is escaped (headerKeyEscape).
        """
        user = self.user
        found = [("Impersonate-User", user["as"])] if user.get("as") else []
        if user.get("as-uid"):
            found.append(("Impersonate-Uid", user["as-uid"]))
        found += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
        for word, values in (user.get("as-user-extra") or {}).items():
            name = f"Impersonate-Extra-{quote(word, safe=_IN_HEADER_NAMES)}"
            found += [(name, value) for value in values or ()]
        if found and not user.get("as"):
            raise ConfigError(f"{self.where}: users[{self.user_name}]: as-uid, as-groups and as-user-extra need `as`")
        return tuple(found)


def select(paths: list[str], context: str | None) -> Selected:
    """Read the files, take the named context or the first current-context; of equal names the first counts."""
    documents: list[tuple[Path, dict[str, Any]]] = []
    for name in paths:
        path = _file(name)
        document = _document(path)
        if document:
            documents.append((path, document))
    shown = " and ".join(paths)
    if not documents:
        raise ConfigError(f"{shown}: the file is empty; expected a kubeconfig")
    contexts, clusters, users = (_entries(documents, word) for word in ("context", "cluster", "user"))
    for path, document in documents:
        _check_words(document, ("current-context",), str(path))
    wanted = context or next((d["current-context"] for _, d in documents if d.get("current-context")), None)
    if not wanted:
        raise ConfigError(f"{shown}: no current-context; expected one of {_names(contexts)}, or name a context")
    if wanted not in contexts:
        raise ConfigError(f"{shown}: no context {written(wanted)}; there are {_names(contexts)}")
    path, chosen = contexts[wanted]
    where = f"{path} (context {wanted})"
    _check_words(chosen, ("cluster", "user", "namespace"), where)
    cluster_name = chosen.get("cluster")
    if not cluster_name or cluster_name not in clusters:
        raise ConfigError(f"{where}: no cluster {written(cluster_name)}; there are {_names(clusters)}")
    user_name = chosen.get("user") or ""
    if user_name and user_name not in users:
        raise ConfigError(f"{where}: no user {written(user_name)}; there are {_names(users)}")
    cluster_path, cluster = clusters[cluster_name]
    user_path, user = users.get(user_name, (path, {}))
    _check_cluster(cluster, cluster_path, f"{where}: clusters[{cluster_name}]")
    _check_user(user, user_path, f"{where}: users[{user_name}]")
    return Selected(
        context=wanted,
        namespace=chosen.get("namespace") or "default",
        cluster=cluster,
        user_name=user_name,
        user=user,
        user_base=user_path.parent.absolute(),
        cluster_base=cluster_path.parent.absolute(),
        where=where,
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; expected a kubeconfig") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; expected a readable kubeconfig") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not text; expected a kubeconfig in YAML") from error
    try:
        found = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ConfigError(f"{path}: not YAML{at}: {one_line(error.problem or 'unreadable')}") from error
    except _TooDeepError as error:
        raise ConfigError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: expected a kubeconfig, its merge keys are nested too deep") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {one_line(str(error))}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: a value is not what its tag says, such as !!int") from error
    if found is None:
        return {}
    if not isinstance(found, dict) or found.get("kind", "Config") != "Config":
        what = f"kind {written(found['kind'])}" if isinstance(found, dict) else _kind_of(found)
        raise ConfigError(f"{path}: expected a kubeconfig (kind Config), found {what}")
    return found


def _kind_of(value: object) -> str:
    names = {list: "a list", dict: "a mapping", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "nothing")


def _entries(documents: list[tuple[Path, dict[str, Any]]], word: str) -> dict[str, tuple[Path, dict[str, Any]]]:
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path, document in documents:
        rows = document.get(f"{word}s") or []
        if not isinstance(rows, list):
            raise ConfigError(f"{path}: {word}s: expected a list, found {_kind_of(rows)}")
        for index, row in enumerate(rows):
            if not isinstance(row, dict) or not isinstance(row.get("name"), str):
                raise ConfigError(f"{path}: {word}s[{index}]: expected a mapping with a name")
            inner = row.get(word)
            if not isinstance(inner, dict | None):
                raise ConfigError(f"{path}: {word}s[{index}].{word}: expected a mapping, found {_kind_of(inner)}")
            found.setdefault(row["name"], (path, inner or {}))
    return found


def _names(found: dict[str, Any]) -> str:
    return ", ".join(found) or "none"


def written(value: object) -> str:
    """Return a value as its author may have written it, in one line."""
    return "nothing" if value is None else json.dumps(value, default=str)[:200]


def _check_cluster(cluster: dict[str, Any], path: Path, where: str) -> None:
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise ConfigError(f"{where}.server: expected an http or https URL, found {written(server)}")
    for word in ("server", "proxy-url"):
        _check_port(cluster, word, where)
    skip = cluster.get("insecure-skip-tls-verify", False)
    if not isinstance(skip, bool):
        raise ConfigError(f"{where}.insecure-skip-tls-verify: expected true or false, found {written(skip)}")
    _check_words(cluster, ("tls-server-name", "proxy-url"), where)
    given = _check_file(cluster, "certificate-authority", path, where)
    if skip and given:
        raise ConfigError(f"{where}: expected certificate-authority or insecure-skip-tls-verify, found both")


def _check_port(entry: dict[str, Any], word: str, where: str) -> None:
    _check_words(entry, (word,), where)
    url = entry.get(word) or ""
    _check_url(url, f"{where}.{word}" if "@" in url else f"{where}.{word}: {written(url)}")


def _check_url(url: str, where: str) -> None:
    """Raise ConfigError for a URL whose host or port can't be read. With an @, a part of a password may be taken for
    the port: nothing of it is repeated.
    """
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        why = "" if "@" in url else f" ({one_line(str(error))})"
        raise ConfigError(f"{where}: expected a URL{why}") from error


def _check_user(user: dict[str, Any], path: Path, where: str) -> None:
    _check_words(user, ("token", "tokenFile", "username", "password", "as", "as-uid"), where)
    _check_texts(user, "as-groups", where)
    extra = _of_kind(dict, user, "as-user-extra", where)
    for word in extra:
        if not isinstance(word, str):
            raise ConfigError(f"{where}.as-user-extra: expected text as a key, found {_kind_of(word)}")
        _check_texts(extra, word, f"{where}.as-user-extra")
    certificate = _check_file(user, "client-certificate", path, where)
    key = _check_file(user, "client-key", path, where)
    if certificate != key:
        raise ConfigError(f"{where}: expected client-certificate and client-key together")
    provider = user.get("auth-provider")
    if provider is not None:
        name = provider.get("name") if isinstance(provider, dict) else provider
        if name not in ("gcp", "oidc"):
            raise ConfigError(f"{where}.auth-provider: {written(name)}: {GONE_PROVIDERS}")
    if user.get("exec") is not None:
        _check_plugin(_of_kind(dict, user, "exec", where), f"{where}.exec")


def _check_plugin(plugin: dict[str, Any], where: str) -> None:
    for word in ("command", "apiVersion"):
        if not isinstance(plugin.get(word), str) or not plugin[word]:
            raise ConfigError(f"{where}.{word}: expected text, found {written(plugin.get(word))}")
    _check_words(plugin, ("installHint",), where)
    _check_texts(plugin, "args", where)
    for index, variable in enumerate(_of_kind(list, plugin, "env", where)):
        at = f"{where}.env[{index}]"
        if not isinstance(variable, dict):
            raise ConfigError(f"{at}: expected a mapping with name and value, found {_kind_of(variable)}")
        for word in ("name", "value"):
            if not isinstance(variable.get(word), str):
                raise ConfigError(f"{at}.{word}: expected text, found {_kind_of(variable.get(word))}")


def _of_kind(kind: type[Kind], entry: dict[str, Any], word: str, where: str) -> Kind:
    """Return the list or mapping that an entry has there; an empty one if it has none."""
    value = entry.get(word)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ConfigError(f"{where}.{word}: expected {_kind_of(kind())}, found {_kind_of(value)}")
    return value


def _check_texts(entry: dict[str, Any], word: str, where: str) -> None:
    for index, value in enumerate(_of_kind(list, entry, word, where)):
        if not isinstance(value, str):
            raise ConfigError(f"{where}.{word}[{index}]: expected text, found {_kind_of(value)}")


def _check_words(entry: dict[str, Any], words: tuple[str, ...], where: str) -> None:
    for word in words:
        if not isinstance(entry.get(word, ""), str | None):
            raise ConfigError(f"{where}.{word}: expected text, found {_kind_of(entry[word])}")


def _check_file(entry: dict[str, Any], word: str, path: Path, where: str) -> bool:
    """Return whether the entry names that file or brings its contents, which must be there and be base64."""
    _check_words(entry, (word, f"{word}-data"), where)
    if data := entry.get(f"{word}-data"):
        try:
            plain = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{where}.{word}-data: expected base64 ({error})") from error
        if b"-----BEGIN " not in plain:
            raise ConfigError(f"{where}.{word}-data: expected base64 of PEM, found other contents")
        return True
    if name := entry.get(word):
        if not (path.parent / name).is_file():
            raise ConfigError(f"{where}.{word}: {path.parent / name}: no such file")
        return True
    return False


# -- what a context says, where the file itself says it all ----------------------------------------------------------


class ServerSettings(Struct, frozen=True):
    """An API server, and how to authenticate there. Names of files are absolute; `header` is Authorization's value."""

    host: str
    ca: Pem | None
    certificate: Pem | None
    key: Pem | None
    verify: bool
    header: str | None


def settings(chosen: Selected) -> ServerSettings:
    """Return the settings that a context says itself. A token wins over a password, data over a file."""
    cluster, user = chosen.cluster, chosen.user
    header = None
    if user.get("token") and not user.get("tokenFile"):
        header = f"Bearer {user['token'].strip()}"
    elif user.get("username") and user.get("password"):
        header = "Basic " + base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
    return ServerSettings(
        host=cluster["server"].rstrip("/"),
        ca=_pem(cluster, "certificate-authority", chosen.cluster_base),
        certificate=_pem(user, "client-certificate", chosen.user_base),
        key=_pem(user, "client-key", chosen.user_base),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        header=header,
    )


def _pem(entry: dict[str, Any], word: str, base: Path) -> Pem | None:
    if data := entry.get(f"{word}-data"):
        return base64.b64decode(data)
    return str(base / entry[word]) if entry.get(word) else None
