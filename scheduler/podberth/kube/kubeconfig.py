"""Check a kubeconfig's shape and pick a context, so that what is wrong can be said in one line.

Only structure is looked at: which files, which context, cluster and user, which files they name. `settings` or
`packaged` then read the contents.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from podberth.kube.errors import ConfigError, one_line

_DEEPEST = 100
"""Levels that a kubeconfig may have: its own fields need eight, extensions may hold anything."""
GONE_PROVIDERS = "client-go no longer knows it; expected an exec plugin instead"


_MOST_MERGED = 10_000
"""Entries that its mappings may take over from others, in all."""


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

    paths: tuple[str, ...]
    context: str
    namespace: str
    cluster_name: str
    cluster: dict[str, Any]
    user_name: str
    user: dict[str, Any]
    user_base: Path
    cluster_base: Path
    where: str

    def impersonation(self) -> tuple[tuple[str, str], ...]:
        """The headers of as, as-uid, as-groups and as-user-extra, which the `kubernetes` package does not know."""
        user = self.user
        found = [("Impersonate-User", user["as"])] if user.get("as") else []
        if user.get("as-uid"):
            found.append(("Impersonate-Uid", user["as-uid"]))
        found += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
        for word, values in (user.get("as-user-extra") or {}).items():
            found += [(f"Impersonate-Extra-{word}", value) for value in values]
        if found and not user.get("as"):
            raise ConfigError(f"{self.where}: users[{self.user_name}]: as-uid, as-groups and as-user-extra need `as`")
        return tuple(found)


def select(paths: list[str], context: str | None) -> Selected:
    """Read the files, take the named context or the first current-context; of equal names the first counts."""
    documents: list[tuple[Path, dict[str, Any]]] = []
    for name in paths:
        path = Path(name).expanduser()
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
        paths=tuple(str(path) for path, _ in documents),
        context=wanted,
        namespace=chosen.get("namespace") or "default",
        cluster_name=cluster_name,
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
    """A value as its author may have written it, in one line."""
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
    try:
        _ = urlsplit(entry.get(word) or "").port
    except ValueError as error:
        raise ConfigError(f"{where}.{word}: {written(entry[word])}: expected a URL ({one_line(str(error))})") from error


def _check_user(user: dict[str, Any], path: Path, where: str) -> None:
    _check_words(user, ("token", "tokenFile", "username", "password", "as", "as-uid"), where)
    certificate = _check_file(user, "client-certificate", path, where)
    key = _check_file(user, "client-key", path, where)
    if certificate != key:
        raise ConfigError(f"{where}: expected client-certificate and client-key together")
    provider = user.get("auth-provider")
    if provider is not None:
        name = provider.get("name") if isinstance(provider, dict) else provider
        if name not in ("gcp", "oidc"):
            raise ConfigError(f"{where}.auth-provider: {written(name)}: {GONE_PROVIDERS}")
    plugin = user.get("exec")
    if plugin is not None:
        if not isinstance(plugin, dict):
            raise ConfigError(f"{where}.exec: expected a mapping, found {_kind_of(plugin)}")
        for word in ("command", "apiVersion"):
            if not isinstance(plugin.get(word), str) or not plugin[word]:
                raise ConfigError(f"{where}.exec.{word}: expected text, found {written(plugin.get(word))}")


def _check_words(entry: dict[str, Any], words: tuple[str, ...], where: str) -> None:
    for word in words:
        if not isinstance(entry.get(word, ""), str | None):
            raise ConfigError(f"{where}.{word}: expected text, found {_kind_of(entry[word])}")


def _check_file(entry: dict[str, Any], word: str, path: Path, where: str) -> bool:
    """True when the entry names that file or brings its contents, which must be there and be base64."""
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
