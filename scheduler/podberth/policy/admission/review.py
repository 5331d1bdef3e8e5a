"""AdmissionReview v1, bytes to request and answer to bytes, strictly; no network, no policy.

Of an object only what policies read is decoded (its metadata; of a pod what its QoS class and its scheduler come from),
so that a review of 8 MiB costs a scan and not a tree. What is decoded is bounded: an object with more labels,
annotations or containers than anybody needs is refused. The object's kind is what the API server says it is, never what
it says of itself.
`reviewer` calls both ends. Wire format: k8s.io/api/admission/v1/types.go.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from podberth.model.mistakes import misfit
from podberth.policy.objects import JsonObject
from podberth.policy.options import UserInfo
from podberth.policy.qos import PodSpec

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
UID_LENGTH = 256
"""The largest length of a UID that is echoed. Those of the API server have 36 characters."""
MALFORMED = (msgspec.MsgspecError, UnicodeError, RecursionError)
REASONS = {400: "BadRequest", 403: "Forbidden", 413: "RequestEntityTooLarge", 429: "TooManyRequests"}
RETRY_SECONDS = 1
"""The Retry-After of a 429, in seconds: clients of Kubernetes retry by themselves."""
BIG_BYTES = 64 << 10
"""From so many bytes on an object or a review takes its time (`turns`); what is smaller takes a millisecond at most."""
MOST_METADATA = 512 << 10
"""Bytes of the JSON of an object's labels, and of its annotations, for which the API server allows 256 KiB of text."""
MOST_CONTAINERS, MOST_RESOURCES = 2048, 256 << 10
"""Containers of a pod, and bytes of the JSON of their requests and limits: its QoS class is worked out from them."""

Bytes: TypeAlias = bytes | bytearray | memoryview

_NOTHING = (b"", b"null")


class ReviewError(ValueError):
    """Bytes that are no review, so that there is no uid to answer."""


class MalformedError(ValueError):
    """A review whose request can't be understood; `uid` is whom to answer, and the answer is no."""

    def __init__(self, uid: str, text: str) -> None:
        super().__init__(text)
        self.uid = uid


class Request(msgspec.Struct, frozen=True):
    """The request of a review; `object` and `old` hold only what policies read."""

    uid: str
    operation: str
    group: str
    kind: str
    namespace: str
    name: str
    sub_resource: str
    user: UserInfo
    dry_run: bool
    object: JsonObject | None
    old: JsonObject | None


class _Kind(msgspec.Struct):
    kind: str
    version: str
    group: str = ""


class _User(msgspec.Struct):
    username: str | None = None
    groups: list[str] | None = None


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _Kind
    operation: str
    namespace: str | None = None
    name: str | None = None
    sub_resource: str | None = None
    user_info: _User | None = None
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _RawMeta(msgspec.Struct, gc=False):
    labels: msgspec.Raw = msgspec.Raw(b"null")
    annotations: msgspec.Raw = msgspec.Raw(b"null")


class _RawContainer(msgspec.Struct, gc=False):
    resources: msgspec.Raw = msgspec.Raw(b"null")


class _RawSpec(msgspec.Struct, rename="camel"):
    containers: list[_RawContainer] | None = None
    init_containers: list[_RawContainer] | None = None


class _Sizes(msgspec.Struct):
    """The parts of a big object whose size is looked at before they are decoded."""

    metadata: _RawMeta | None = None


class _PodSizes(_Sizes):
    spec: _RawSpec | None = None


class _Object(msgspec.Struct):
    metadata: _Meta | None = None


class _Status(msgspec.Struct, rename="camel"):
    qos_class: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta | None = None
    spec: PodSpec | None = None
    status: _Status | None = None


class _OldPod(msgspec.Struct):
    """A pod as it was before an update, without its spec, which is not read."""

    metadata: _Meta | None = None
    status: _Status | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


class _Uid(msgspec.Struct):
    uid: str


class _Addressed(msgspec.Struct):
    """A review of which only the one to answer is read, as the rest is malformed."""

    request: _Uid


_review = msgspec.json.Decoder(_Review).decode
_addressed = msgspec.json.Decoder(_Addressed).decode
_object = msgspec.json.Decoder(_Object).decode
_sizes = msgspec.json.Decoder(_Sizes).decode
_pod_sizes = msgspec.json.Decoder(_PodSizes).decode
_pod = msgspec.json.Decoder(_Pod).decode
_old_pod = msgspec.json.Decoder(_OldPod).decode
_NAME = rb':\s*"([A-Za-z0-9._-]{1,253})"'
_hinted_uid = re.compile(rb'"uid"' + _NAME).search
_hinted_namespace = re.compile(rb'"namespace"' + _NAME).search
HEAD_BYTES = 16 << 10
"""The number of first bytes of a review in which the API server writes uid and namespace."""


class Hint(msgspec.Struct, frozen=True):
    """A guess of uid and namespace from the first bytes of a review, before the rest is read. It is only a hint."""

    uid: str = ""
    namespace: str = ""


def hint(head: Bytes) -> Hint:
    """Return uid and namespace, which the API server writes before the object (Go's order of fields).

    Within a text both would be escaped, so that no name of an object looks like them. The first of each counts, and
    no more is looked for: an object may have thousands of uids.
    """
    uid, namespace = (find(head, 0, HEAD_BYTES) for find in (_hinted_uid, _hinted_namespace))
    return Hint("" if uid is None else uid[1].decode(), "" if namespace is None else namespace[1].decode())


def read(body: Bytes) -> Request:
    """Return the request in a review.

    Raises ReviewError when there is no uid to answer, MalformedError when there is.
    """
    try:
        review = _review(body)
    except MALFORMED as error:
        raise _malformed(body, error) from error
    uid, asked = review.request.uid, review.request
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise ReviewError(f"want {API_VERSION} {KIND}")
    if not 0 < len(uid) <= UID_LENGTH:
        raise ReviewError(f"request.uid: want 1 to {UID_LENGTH} characters")
    wants_object = asked.operation in ("CREATE", "UPDATE")
    obj = _thin(uid, "object", asked.object, asked.kind) if wants_object else None
    old = _thin(uid, "oldObject", asked.old_object, asked.kind) if wants_object else None
    if wants_object and obj is None:
        raise MalformedError(uid, "request.object: want the object")
    user = asked.user_info or _User()
    return Request(
        uid=uid,
        operation=asked.operation,
        group=asked.kind.group,
        kind=asked.kind.kind,
        namespace=asked.namespace or "",
        name=asked.name or "",
        sub_resource=asked.sub_resource or "",
        user=UserInfo(user.username or "", tuple(user.groups or ())),
        dry_run=bool(asked.dry_run),
        object=obj,
        old=old,
    )


def _malformed(body: Bytes, error: Exception) -> ReviewError | MalformedError:
    """Return the mistake in a review, addressed to its uid if it has one."""
    try:
        uid = _addressed(body).request.uid
    except MALFORMED:
        uid = ""
    if 0 < len(uid) <= UID_LENGTH:
        return MalformedError(uid, f"the request can't be read: {_say(error)}")
    return ReviewError(f"want an {API_VERSION} {KIND} with a request that has a uid: {_say(error)}")


def answer(
    uid: str,
    *,
    allowed: bool,
    code: int = 200,
    message: str = "",
    patch: Sequence[JsonObject] = (),
    warnings: Sequence[str] = (),
    audit: Mapping[str, str] | None = None,
) -> bytes:
    """Return a review with the response."""
    response: dict[str, Any] = {"uid": uid, "allowed": allowed}
    if not allowed:
        response["status"] = {"code": code, "reason": REASONS.get(code, "Forbidden"), "message": message}
        if code == 429:
            response["status"]["details"] = {"retryAfterSeconds": RETRY_SECONDS}
    elif patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    if warnings:
        response["warnings"] = list(warnings)
    if audit:
        response["auditAnnotations"] = dict(audit)
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _thin(uid: str, field: str, raw: msgspec.Raw, kind: _Kind) -> JsonObject | None:
    """Return the fields of an object that policies read, under the kind that the API server names. Raises
    MalformedError.
    """
    if bytes(memoryview(raw)[:5]) in _NOTHING:
        return None
    found: JsonObject = {"apiVersion": f"{kind.group}/{kind.version}".lstrip("/"), "kind": kind.kind}
    pod = (kind.group, kind.kind) == ("", "Pod")
    try:
        if len(memoryview(raw)) >= BIG_BYTES and (excess := _excess(_pod_sizes(raw) if pod else _sizes(raw))):
            raise MalformedError(uid, f"request.{field}: {excess}")
        read = (_old_pod(raw) if field == "oldObject" else _pod(raw)) if pod else _object(raw)
    except MALFORMED as error:
        raise MalformedError(uid, f"request.{field}: {_say(error)}") from error
    if (meta := read.metadata) is not None:
        held = {"labels": meta.labels, "annotations": meta.annotations}
        found["metadata"] = {key: value for key, value in held.items() if value is not None}
    if isinstance(read, _Pod) and read.spec is not None:
        if excess := _too_many(len(read.spec.get("containers") or ()) + len(read.spec.get("initContainers") or ())):
            raise MalformedError(uid, f"request.{field}: {excess}")
        found["spec"] = read.spec
    if not isinstance(read, _Object) and read.status is not None and read.status.qos_class:
        found["status"] = {"qosClass": read.status.qos_class}
    return found


def _excess(sizes: _Sizes) -> str:
    """Return what a big object has too much of, "" when nothing: found by a scan, before it costs more than that."""
    meta = sizes.metadata or _RawMeta()
    for part, raw in (("labels", meta.labels), ("annotations", meta.annotations)):
        if (size := len(memoryview(raw))) > MOST_METADATA:
            return f"metadata.{part}: {size} bytes, want at most {MOST_METADATA}"
    if not isinstance(sizes, _PodSizes) or sizes.spec is None:
        return ""
    containers = [*(sizes.spec.containers or ()), *(sizes.spec.init_containers or ())]
    size = sum(len(memoryview(one.resources)) for one in containers)
    if size > MOST_RESOURCES and len(containers) <= MOST_CONTAINERS:
        return f"spec: {size} bytes of containers' resources, want at most {MOST_RESOURCES}"
    return _too_many(len(containers))


def _too_many(containers: int) -> str:
    return f"spec: {containers} containers, want at most {MOST_CONTAINERS}" if containers > MOST_CONTAINERS else ""


def _say(error: Exception) -> str:
    """Return the mistake in a line; the decoder names paths and types, never values."""
    return misfit(error)[:200]
