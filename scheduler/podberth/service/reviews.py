"""Asks the API server who a client is and what it may read: TokenReview and SubjectAccessReview.

A client certificate that TLS has verified says by itself who asks, and comes before a token, as in
DelegatingAuthenticatorConfig. The CAs that sign such certificates are read from the ConfigMap
`kube-system/extension-apiserver-authentication`: the API server writes its own `--client-ca-file` there, for components
that check certificates as it does.

Answers are kept for ten seconds, as kube-scheduler keeps them (DelegatingAuthenticationOptions, -AuthorizationOptions);
a token is remembered by its digest only.

Anybody who reaches the port can make up tokens, and each would be a question to the API server. So who was refused
lately may ask a few new questions a second, by address; all strangers together may ask somewhat more; and refusals are
remembered apart from permissions, so that no flood of them pushes those out. What is over the limit is answered 429.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import REVIEW, Bucket
from podberth.kube.objects import Change, Deleted, Partial
from podberth.kube.reflector import Reflector
from podberth.kube.resources import CONFIG_MAPS, Resource

KEEP_SECONDS = 10.0
KEEP_MOST = 1024
PEER_RATE, PEER_BURST = 1.0, 10
"""New questions for one address: a second, and at once. A question that ends well is given back."""
ALL_RATE, ALL_BURST = 10.0, 50
"""New questions for all addresses together: a second, and at once."""
PEERS_MOST = 1024
TOLD_SECONDS = 60.0
"""Between two lines of the log about what was refused."""
TOKEN_MOST = 16 * 1024
"""Characters of a token; what is longer is none."""
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
CA_NAMESPACE, CA_NAME, CA_KEY = "kube-system", "extension-apiserver-authentication", "client-ca-file"
"""The ConfigMap in which the API server writes the CAs of clients, and the key in it."""
AUTHENTICATED = "system:authenticated"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
UID_OID = "1.3.6.1.4.1.57683.2"
Verdict = tuple[int, str]
Key = tuple[bytes, str]

log = structlog.get_logger("reviews")


class NobodyError(Exception):
    """A credential names nobody: one line that says why."""


class User(msgspec.Struct, frozen=True):
    """A user, as a TokenReview names one."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: User = User()


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class _ConfigMap(Partial, gc=False):
    data: dict[str, str] | None = None


_token_review = msgspec.json.Decoder(_TokenReview)
_access_review = msgspec.json.Decoder(_AccessReview)


class _Kept:
    """Answers of the last seconds; the oldest go first when there are too many."""

    def __init__(self) -> None:
        self._answers: dict[Key, tuple[float, Verdict]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: Key, now: float) -> Verdict | None:
        """Return what was answered, if that is not too long ago."""
        kept = self._answers.get(key)
        return kept[1] if kept is not None and now < kept[0] else None

    def put(self, key: Key, verdict: Verdict, now: float) -> None:
        """Remember an answer."""
        self._answers.pop(key, None)
        while len(self._answers) >= KEEP_MOST:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = (now + KEEP_SECONDS, verdict)


class Reviews:
    """Asks one API server, and remembers its answers for a moment."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._allowed, self._refused = _Kept(), _Kept()
        self._peers: dict[str, Bucket] = {}
        self._all = Bucket(ALL_RATE, ALL_BURST)
        self._over = 0
        """Questions that were not asked since the last line of the log about it."""
        self._told_at = float("-inf")

    @property
    def kept(self) -> dict[str, int]:
        """Return how many answers and peers are remembered: bounded, as anyone may ask."""
        return {"allowed": len(self._allowed), "refused": len(self._refused), "peers": len(self._peers)}

    async def authorities(self, found: Callable[[bytes], None], kept: Callable[[str], None]) -> None:
        """Call `found` with the CAs that sign clients' certificates (PEM), now and after each change; until cancelled.

        `kept` is called, with the reason, when there are none: what was known stays while the ConfigMap is gone or
        can't be read. Mirrors k8s.io/apiserver `pkg/server/dynamiccertificates/configmap_cafile_content.go`
        (DynamicConfigMapCAController).
        """
        seen = False

        def changed(changes: list[Change[_ConfigMap]], _replaced: bool) -> None:
            nonlocal seen
            if seen and not changes:
                return
            seen = True
            there = [change.object for change in changes if not isinstance(change, Deleted)]
            bundle = (there[-1].data or {}).get(CA_KEY) if there else None
            if bundle:
                found(bundle.encode())
            else:
                kept(f"no {CA_KEY} in ConfigMap {CA_NAMESPACE}/{CA_NAME}")

        def refused(_resource: Resource, error: ApiError | None) -> None:
            if error is not None:
                kept(str(error))

        await Reflector(
            self._client,
            CONFIG_MAPS,
            msgspec.json.Decoder(_ConfigMap).decode,
            changed,
            namespace=CA_NAMESPACE,
            field_selector=f"metadata.name={CA_NAME}",
            on_refused=refused,
        ).run()

    async def authorize(
        self, authorization: str | None, path: str, certificate: bytes | None = None, peer: str = ""
    ) -> Verdict:
        """Return whether the owner of this Authorization header may GET a path: (200, …), or the status to answer with.

        `certificate`: of the client, in DER form, and verified by TLS. `peer`: its address.
        """
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        if certificate is None and not token:
            return 401, "want a bearer token, or a certificate that a CA of the cluster's clients has signed"
        if certificate is None and (len(token) > TOKEN_MOST or not token.isascii()):
            return 401, "the bearer token is not valid"
        key = hashlib.sha256(token.encode() if certificate is None else certificate).digest(), path
        now = self._clock()
        kept = self._allowed.get(key, now) or self._refused.get(key, now)
        if kept is not None:
            return kept
        share = self._share(peer, now)
        if share.left(now) < 1.0 or self._all.left(now) < 1.0:
            self._refuse(peer, now)
            return 429, "too many requests that had to be reviewed, try again in some seconds"
        share.take(now)
        self._all.take(now)
        try:
            user = await self._owner(token) if certificate is None else certified(certificate)
            verdict = await self._may(user, path)
        except NobodyError as error:
            verdict = 401, str(error)
        except (ApiError, Unreachable) as error:
            return 503, f"the API server did not review this request: {error}"
        if verdict[0] == 200:
            share.give_back()
            self._all.give_back()
        (self._allowed if verdict[0] == 200 else self._refused).put(key, verdict, now)
        return verdict

    def _share(self, peer: str, now: float) -> Bucket:
        """Return what this address may ask. Addresses beyond those that are known share one."""
        found = self._peers.get(peer)
        if found is None:
            if len(self._peers) >= PEERS_MOST:  # a full bucket is as good as a new one
                self._peers = {name: share for name, share in self._peers.items() if share.left(now) < share.burst}
            if len(self._peers) >= PEERS_MOST:
                peer = ""
            found = self._peers.setdefault(peer, Bucket(PEER_RATE, PEER_BURST))
        return found

    def _refuse(self, peer: str, now: float) -> None:
        """Count it; one line of the log now and then says how many there were."""
        self._over += 1
        if now - self._told_at >= TOLD_SECONDS:
            log.warning(
                "requests were refused without asking the API server, there were too many",
                requests=self._over,
                last=peer,
            )
            self._over, self._told_at = 0, now

    async def _owner(self, token: str) -> User:
        """Raises NobodyError."""
        answer = await self._review(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        status = read_answer(answer, _token_review.decode).status
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
        if read_answer(answer, _access_review.decode).status.allowed:
            return 200, user.username
        return 403, f'user "{user.username}" may not get path "{path}"'

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> bytes:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec})
        return await self._client.request("POST", path, body=body, lane=REVIEW, tries=2, timeout=5.0)


def certified(certificate: bytes) -> User:
    """Return whom a certificate (DER, verified) names: the last CN is the user, each O a group.

    Raises NobodyError, also when it has expired since its connection was made. Mirrors k8s.io/apiserver
    `pkg/authentication/request/x509/x509.go` (CommonNameUserConversion).
    """
    from cryptography import x509  # as nobody may come with one
    from cryptography.x509.oid import NameOID, ObjectIdentifier

    try:
        read = x509.load_der_x509_certificate(certificate)
        found: dict[ObjectIdentifier, list[str]] = {}
        for attribute in read.subject:
            found.setdefault(attribute.oid, []).append(str(attribute.value))
        until = read.not_valid_after_utc
    except ValueError as error:
        raise NobodyError(f"the client certificate can't be read: {error}") from None
    names, uids = found.get(NameOID.COMMON_NAME, []), found.get(ObjectIdentifier(UID_OID), [])
    if until < datetime.now(UTC):
        raise NobodyError("the client certificate has expired")
    if not names or not names[-1]:
        raise NobodyError("the client certificate has no common name")
    if uids and (len(uids) > 1 or not uids[0]):
        raise NobodyError("the client certificate has more than one UID, or an empty one")
    groups = (*found.get(NameOID.ORGANIZATION_NAME, ()), AUTHENTICATED)
    identity = f"X509SHA256={hashlib.sha256(certificate).hexdigest()}"
    return User(names[-1], "".join(uids), groups, {CREDENTIAL_ID: [identity]})
