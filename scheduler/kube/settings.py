"""What a context says of its cluster and user, where the file itself says it all.

Tokens, certificates and passwords are read here; `packaged` has the `kubernetes` package read what takes more (auth
providers, exec plugins). Importing that package costs a third of a second and 20 MB, which most processes can do
without.
"""

from __future__ import annotations

import atexit
import base64
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import getproxies_environment

from scheduler.kube.kubeconfig import Selected

_inline: dict[bytes, str] = {}


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the API server is and how to authenticate. Files are absolute; `header` is Authorization's value."""

    host: str
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    verify: bool
    header: str | None


def plain(chosen: Selected) -> bool:
    """Whether `settings` reads all of a user: it has neither an auth provider nor an exec plugin in use."""
    user = chosen.user
    return not user.get("auth-provider") and not (user.get("exec") and not user.get("token"))


def settings(chosen: Selected) -> Settings:
    """The settings of a context whose user is `plain`. A token wins over a password, data over a file."""
    cluster, user = chosen.cluster, chosen.user
    header = None
    if user.get("token") and not user.get("tokenFile"):
        header = f"Bearer {user['token'].strip()}"
    elif user.get("username") and user.get("password"):
        header = "Basic " + base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
    return Settings(
        host=cluster["server"].rstrip("/"),
        ca_file=_file(cluster, "certificate-authority", chosen.cluster_base),
        cert_file=_file(user, "client-certificate", chosen.user_base),
        key_file=_file(user, "client-key", chosen.user_base),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        header=header,
    )


def proxies(host: str) -> tuple[str | None, str]:
    """(the environment's proxy for a host, its NO_PROXY)."""
    found = getproxies_environment()
    return found.get("https" if host.startswith("https://") else "http"), found.get("no", "")


def as_file(contents: bytes) -> str:
    """The name of a private file with these contents, which goes when we go: OpenSSL wants files."""
    name = _inline.get(contents)
    if name is None or not Path(name).exists():
        with tempfile.NamedTemporaryFile(prefix="berth-", suffix=".pem", delete=False) as file:
            file.write(contents)
        name = _inline[contents] = file.name
        atexit.register(Path(name).unlink, missing_ok=True)
    return name


def _file(entry: dict[str, Any], word: str, base: Path) -> str | None:
    if data := entry.get(f"{word}-data"):
        return as_file(base64.b64decode(data))
    return str(base / entry[word]) if entry.get(word) else None
