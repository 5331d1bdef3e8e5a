"""What a context says of its cluster and user, where the file itself says it all.

Tokens, certificates and passwords are read here; `packaged` has the `kubernetes` package read what takes more (auth
providers, exec plugins). Importing that package costs a third of a second and 20 MB, which most processes can do
without.
"""

from __future__ import annotations

import atexit
import base64
import os
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from podberth.kube.kubeconfig import Selected

_OWN_FILES = "/proc/self/fd"


class ServerSettings(Struct, frozen=True):
    """Where the API server is and how to authenticate. Files are absolute; `header` is Authorization's value."""

    host: str
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    verify: bool
    header: str | None


def plain(chosen: Selected) -> bool:
    """Return whether `settings` reads all of a user: it has neither an auth provider nor an exec plugin in use."""
    user = chosen.user
    return not user.get("auth-provider") and not (user.get("exec") and not user.get("token"))


def settings(chosen: Selected) -> ServerSettings:
    """The settings of a context whose user is `plain`. A token wins over a password, data over a file."""
    cluster, user = chosen.cluster, chosen.user
    header = None
    if user.get("token") and not user.get("tokenFile"):
        header = f"Bearer {user['token'].strip()}"
    elif user.get("username") and user.get("password"):
        header = "Basic " + base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
    return ServerSettings(
        host=cluster["server"].rstrip("/"),
        ca_file=_file(cluster, "certificate-authority", chosen.cluster_base),
        cert_file=_file(user, "client-certificate", chosen.user_base),
        key_file=_file(user, "client-key", chosen.user_base),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        header=header,
    )


def proxies(host: str) -> tuple[str | None, str]:
    """(the environment's proxy for a host, its NO_PROXY)."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None, ""
    from urllib.request import getproxies_environment  # it brings an HTTP client along, which no start needs

    found = getproxies_environment()
    return found.get("https" if host.startswith("https://") else "http"), found.get("no", "")


class PrivateFiles:
    """Files for what OpenSSL wants to read from a file: `most` of them, those that were not asked for longest go.

    On Linux they are in memory, and go with the process however that ends. Elsewhere they are temporary files, which go
    when the process ends by itself; after a SIGKILL they stay.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: dict[bytes, str] = {}
        """By contents; what was asked for last is at the end."""

    def __len__(self) -> int:
        return len(self._names)

    def name_of(self, contents: bytes) -> str:
        name = self._names.pop(contents, None)
        if name is None or not Path(name).exists():
            while len(self._names) >= self._most:
                _remove(self._names.pop(next(iter(self._names))))
            name = _in_memory(contents) or _on_disk(contents)
        self._names[contents] = name
        return name

    def close(self) -> None:
        """Remove them all."""
        while self._names:
            _remove(self._names.popitem()[1])


as_file = PrivateFiles(64).name_of
"""The name of a private file with these contents."""


def _in_memory(contents: bytes) -> str | None:
    if not hasattr(os, "memfd_create"):
        return None
    file = os.memfd_create("berth-pem")  # closed on exec, like every file of Python
    name = f"{_OWN_FILES}/{file}"
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(contents)
        if Path(name).read_bytes() == contents:
            return name
    except OSError:
        pass  # no /proc here, or no room in memory: a temporary file may do
    os.close(file)
    return None


def _on_disk(contents: bytes) -> str:
    with tempfile.NamedTemporaryFile(prefix="berth-", suffix=".pem", delete=False) as file:
        file.write(contents)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


def _remove(name: str) -> None:
    if name.startswith(f"{_OWN_FILES}/"):
        os.close(int(name.rpartition("/")[2]))
    else:
        Path(name).unlink(missing_ok=True)


def _file(entry: dict[str, Any], word: str, base: Path) -> str | None:
    if data := entry.get(f"{word}-data"):
        return as_file(base64.b64decode(data))
    return str(base / entry[word]) if entry.get(word) else None
