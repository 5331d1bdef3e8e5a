"""Admission call-outs: registered mutating and validating webhooks, asked over HTTPS as the real server asks them.

matchConditions (CEL) are not evaluated: a webhook that has them is asked always. Upstream: k8s.io/apiserver
pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go, predicates/rules, request/admissionreview.go.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import Callable
from typing import NamedTuple

import aiohttp
import msgspec

from podberth.apiserver.resources import Registry, Resource
from podberth.apiserver.rules.patch import json_patch
from podberth.apiserver.rules.selectors import label_selector
from podberth.apiserver.rules.status import JsonObject, StatusError, internal
from podberth.apiserver.storage import Store
from podberth.apiserver.users import Trail

REPLY_LIMIT = 8 * 1024 * 1024


class Target(NamedTuple):
    """The resource and the object that a write is about, and the operation, as webhooks are asked about it."""

    operation: str
    resource: Resource
    namespace: str
    name: str
    subresource: str
    dry_run: bool
    trail: Trail


class _CallError(Exception):
    """A webhook could not be asked."""


def _matches_rule(request: Target, rule: JsonObject) -> bool:
    def among(name: str, value: str) -> bool:
        values = rule.get(name) or []
        return "*" in values or value in values

    resource = request.resource
    scope = rule.get("scope", "*")
    # A Namespace object is cluster-scoped to a rule, though requests about it carry its name as namespace.
    if scope != "*" and (scope == "Namespaced") is not resource.namespaced:
        return False
    if not (among("operations", request.operation) and among("apiGroups", resource.group)):
        return False
    if not among("apiVersions", resource.version):
        return False
    for pattern in rule.get("resources") or []:
        plural, _, subresource = pattern.partition("/")
        if plural in {"*", resource.plural} and subresource in {"*", request.subresource}:
            return True
    return False


class Admission:
    """Asks the webhooks that match a request."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._mutating: list[JsonObject] = []
        self._validating: list[JsonObject] = []
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            store.on_write[registry.built_in(plural).collection] = self.refresh

    def refresh(self) -> None:
        """Read the configurations anew; webhooks are asked in the order of their configuration's name."""
        self._mutating = self._webhooks("mutatingwebhookconfigurations")
        self._validating = self._webhooks("validatingwebhookconfigurations")

    def _webhooks(self, plural: str) -> list[JsonObject]:
        collection = self._store.collection(self._registry.built_in(plural).collection)
        return [
            {**hook, "configuration": stored.key}
            for stored in collection.ordered()
            for hook in stored.obj.get("webhooks") or []
        ]

    async def close(self) -> None:
        """Let the connections to webhooks go."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # --- matching ---------------------------------------------------------------------------------------------------

    def _wants(self, hook: JsonObject, request: Target, obj: JsonObject, old: JsonObject | None) -> bool:
        # Upstream never calls webhooks about webhook configurations, so that a broken one can be removed.
        if request.resource.group == "admissionregistration.k8s.io":
            return False
        if not any(_matches_rule(request, rule) for rule in hook.get("rules") or []):
            return False
        if not self._namespace_selected(hook, request, obj):
            return False
        selects = label_selector(hook.get("objectSelector") or {})
        return any(
            candidate is not None and selects(candidate["metadata"].get("labels") or {}) for candidate in (obj, old)
        )

    def _namespace_selected(self, hook: JsonObject, request: Target, obj: JsonObject) -> bool:
        selects = label_selector(hook.get("namespaceSelector") or {})
        if request.resource.is_a("Namespace"):
            return selects(obj["metadata"].get("labels") or {})
        if not request.resource.namespaced:
            return True
        stored = self._store.get(self._registry.built_in("namespaces"), request.namespace)
        return stored is not None and selects(stored.obj["metadata"].get("labels") or {})

    # --- the two phases ---------------------------------------------------------------------------------------------

    async def mutate(
        self,
        request: Target,
        obj: JsonObject,
        old: JsonObject | None,
        redefault: Callable[[JsonObject], None],
    ) -> JsonObject:
        """Ask the mutating webhooks one after the other; those that ask for it once more after a later change."""
        if not self._mutating:
            return obj
        changed_by_later: list[JsonObject] = []
        called: list[JsonObject] = []
        for hook in self._mutating:
            if not self._wants(hook, request, obj, old):
                continue
            patched = await self._mutated_by(hook, request, obj, old, 0)
            called.append(hook)
            if patched != obj:
                redefault(patched)
                obj = patched
                changed_by_later.extend(
                    earlier
                    for earlier in called[:-1]
                    if earlier.get("reinvocationPolicy") == "IfNeeded" and earlier not in changed_by_later
                )
        for hook in changed_by_later:
            if self._wants(hook, request, obj, old):
                patched = await self._mutated_by(hook, request, obj, old, 1)
                if patched != obj:
                    redefault(patched)
                    obj = patched
        return obj

    async def _mutated_by(
        self, hook: JsonObject, request: Target, obj: JsonObject, old: JsonObject | None, round_: int
    ) -> JsonObject:
        response = await self._ask(hook, request, obj, old)
        patched = obj if response is None else self._patched(request.resource, obj, response)
        told = {"configuration": hook["configuration"], "webhook": hook["name"], "mutated": patched != obj}
        note = f"mutation.webhook.admission.k8s.io/round_{round_}_index_{self._mutating.index(hook)}"
        request.trail.annotations[note] = msgspec.json.encode(told).decode()
        return patched

    def _patched(self, resource: Resource, obj: JsonObject, response: JsonObject) -> JsonObject:
        if not response.get("patch"):
            return obj
        whole = self._whole(resource, obj)
        try:
            if response.get("patchType") != "JSONPatch":
                raise ValueError("webhook response has patch but no patchType")
            operations = msgspec.json.decode(base64.b64decode(response["patch"]))
            patched = json_patch(msgspec.json.decode(msgspec.json.encode(whole)), operations)
        except (StatusError, ValueError, TypeError) as error:
            # A patch that can't be applied is the server's error whatever the failurePolicy says.
            raise internal(str(error)) from error
        for name in ("kind", "apiVersion"):
            patched.pop(name, None)
        return {"metadata": patched.pop("metadata"), **patched}

    async def validate(self, request: Target, obj: JsonObject, old: JsonObject | None) -> None:
        """Ask all validating webhooks at once; the first refusal in order counts."""
        hooks = [hook for hook in self._validating if self._wants(hook, request, obj, old)]
        if not hooks:
            return
        answers = await asyncio.gather(*(self._ask(hook, request, obj, old) for hook in hooks), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    # --- one call ---------------------------------------------------------------------------------------------------

    async def _ask(
        self, hook: JsonObject, request: Target, obj: JsonObject, old: JsonObject | None
    ) -> JsonObject | None:
        """Return one webhook's response; None when it can't be had and its failurePolicy lets that pass."""
        if request.dry_run and hook.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise StatusError(400, "BadRequest", f'admission webhook "{hook["name"]}" does not support dry run')
        try:
            response = await self._call(hook, request, obj, old)
        except _CallError as failure:
            if hook.get("failurePolicy") == "Ignore":
                request.trail.annotations[f"failed-open.webhook.admission.k8s.io/{hook['name']}"] = str(failure)
                return None
            raise internal(f'failed calling webhook "{hook["name"]}": {failure}') from failure
        for warning in response.get("warnings") or []:
            request.trail.warnings.append(str(warning))
        for key, value in (response.get("auditAnnotations") or {}).items():
            request.trail.annotations[f"{hook['name']}/{key}"] = str(value)
        if not response.get("allowed"):
            raise _denied(hook["name"], response.get("status") or {})
        return response

    async def _call(self, hook: JsonObject, request: Target, obj: JsonObject, old: JsonObject | None) -> JsonObject:
        review = self._review(request, obj, old)
        config = hook.get("clientConfig") or {}
        timeout = float(hook.get("timeoutSeconds") or 10)
        try:
            url = self._url(config)
            if self._session is None:
                self._session = aiohttp.ClientSession()
            async with self._session.post(
                url,
                params={"timeout": f"{int(timeout)}s"},
                data=msgspec.json.encode(review),
                headers={"Content-Type": "application/json"},
                ssl=self._context(config) if url.startswith("https") else False,
                timeout=aiohttp.ClientTimeout(total=timeout),
            ) as reply:
                body = await reply.content.read(REPLY_LIMIT)
                if reply.status != 200:
                    raise _CallError(f"failed to call webhook: {body.decode(errors='replace')[:200]}")
        except TimeoutError as error:
            raise _CallError("failed to call webhook: context deadline exceeded") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _CallError(f"failed to call webhook: {error}") from error
        return _response_of(body, review["request"]["uid"])

    def _url(self, config: JsonObject) -> str:
        if url := config.get("url"):
            return str(url)
        raise ValueError(f'service "{(config.get("service") or {}).get("name")}" not found')

    def _context(self, config: JsonObject) -> ssl.SSLContext:
        bundle = config.get("caBundle") or ""
        if bundle not in self._contexts:
            data = base64.b64decode(bundle).decode() if bundle else None
            context = self._contexts[bundle] = ssl.create_default_context(cadata=data)
            # As Go, and so kube-apiserver: less strict, and each certificate of the bundle is trusted for itself.
            context.verify_flags = (context.verify_flags & ~ssl.VERIFY_X509_STRICT) | ssl.VERIFY_X509_PARTIAL_CHAIN
        return self._contexts[bundle]

    def _whole(self, resource: Resource, obj: JsonObject) -> JsonObject:
        return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}

    def _review(self, request: Target, obj: JsonObject, old: JsonObject | None) -> JsonObject:
        resource = request.resource
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        which = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        user = request.trail.user
        options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}[request.operation]
        content: JsonObject = {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": which,
            "requestKind": kind,
            "requestResource": which,
            "operation": request.operation,
            "userInfo": {"username": user.name, "groups": list(user.groups)},
            "object": None if request.operation == "DELETE" else self._whole(resource, obj),
            "oldObject": None if old is None else self._whole(resource, old),
            "dryRun": request.dry_run,
            "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
        }
        if request.name:
            content["name"] = request.name
        if resource.namespaced:
            content["namespace"] = request.namespace
        elif resource.kind == "Namespace":
            content["namespace"] = request.name
        if request.subresource:
            content["subResource"] = content["requestSubResource"] = request.subresource
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": content}


def _response_of(body: bytes, uid: str) -> JsonObject:
    """Return the response in a webhook's reply; refuses one that isn't an answer to this request."""
    try:
        review = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise _CallError(f"failed to call webhook: {error}") from error
    if not isinstance(review, dict) or review.get("apiVersion") != "admission.k8s.io/v1":
        raise _CallError("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview")
    response = review.get("response")
    if not isinstance(response, dict):
        raise _CallError("webhook response was absent")
    if response.get("uid") != uid:
        raise _CallError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return response


def _denied(name: str, status: JsonObject) -> StatusError:
    """Return the refusal as the client reads it (webhookerrors.ToStatusErr)."""
    denied = f'admission webhook "{name}" denied the request'
    reason = status.get("reason") or ""
    why = status.get("message") or reason
    code = status.get("code")
    return StatusError(
        code if code and 400 <= code < 600 else 400,
        reason,
        f"{denied}: {why}" if why else f"{denied} without explanation",
        status.get("details"),
    )
