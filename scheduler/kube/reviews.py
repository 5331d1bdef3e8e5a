"""Who asks us, and may they: TokenReview and SubjectAccessReview, as the API server's own components delegate it.

A client certificate that TLS has verified says by itself who asks, and comes before a token, as in
DelegatingAuthenticatorConfig.

Answers are kept for ten seconds, as kube-scheduler keeps them (DelegatingAuthenticationOptions, -AuthorizationOptions);
a token is remembered by its digest only.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.kube.authorities import follow
from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.kube.flow import REVIEW
from scheduler.kube.users import NobodyError, User, certified

KEEP_SECONDS = 10.0
KEEP_MOST = 1024
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: User = User()


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class Reviews:
    """Asks one API server, and remembers its answers for a moment."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[tuple[bytes, str], tuple[float, tuple[int, str]]] = {}

    async def authorities(self, found: Callable[[bytes], None], kept: Callable[[str], None]) -> None:
        """Tell of the CAs that sign clients' certificates, as `authorities.follow` does."""
        await follow(self._client, found, kept)

    async def authorize(
        self, authorization: str | None, path: str, certificate: bytes | None = None
    ) -> tuple[int, str]:
        """Whether the owner of this Authorization header may GET a path: (200, …), or the status to answer with.

        `certificate`: of the client, in DER form, and verified by TLS.
        """
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if certificate is None and not token:
            return 401, "want a bearer token, or a certificate that a CA of the cluster's clients has signed"
        key = hashlib.sha256(token.encode() if certificate is None else certificate).digest(), path
        now = self._clock()
        kept = self._kept.get(key)
        if kept is not None and now < kept[0]:
            return kept[1]
        try:
            user = await self._owner(token) if certificate is None else certified(certificate)
            verdict = await self._may(user, path)
        except NobodyError as error:
            verdict = 401, str(error)
        except (ApiError, Unreachable) as error:
            return 503, f"the API server did not review this request: {error}"
        if len(self._kept) >= KEEP_MOST:
            self._kept.clear()
        self._kept[key] = (now + KEEP_SECONDS, verdict)
        return verdict

    async def _owner(self, token: str) -> User:
        """Raises NobodyError."""
        answer = await self._review(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        status = msgspec.json.decode(answer, type=_TokenReview).status
        if not status.authenticated:
            raise NobodyError("the bearer token is not valid")
        return status.user

    async def _may(self, user: User, path: str) -> tuple[int, str]:
        asked: dict[str, Any] = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        answer = await self._review(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", asked)
        if msgspec.json.decode(answer, type=_AccessReview).status.allowed:
            return 200, user.username
        return 403, f'user "{user.username}" may not get path "{path}"'

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> bytes:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec})
        return await self._client.request("POST", path, body=body, lane=REVIEW, tries=2, timeout=5.0)
