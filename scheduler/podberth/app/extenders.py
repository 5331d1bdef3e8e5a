"""Asks HTTP extenders, as kube-scheduler asks them, and lets them bind.

Mirrors kube-scheduler `extender.go` and `schedule_one.go` (findNodesThatPassExtenders, prioritizeNodes), wire format
`k8s.io/kube-scheduler/extender/v1`. Filters are asked one after the other, each about what the one before has left;
all are asked for scores at once. If an extender fails that is not `ignorable`, the pod fails with its error.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import structlog
from msgspec import Meta, Struct

from podberth.app.reporting import UnderWay
from podberth.app.watch import Originals
from podberth.engine.instructions import AskExtenders, Carries
from podberth.engine.stimuli import ExtendersAnswered, ExtendersFailed, Stimulus
from podberth.framework.binding import AssumedPod, BindResult
from podberth.framework.config import ConfigError, Extender, TLSConfig, parse_duration
from podberth.framework.extenders import NodesAnswer, NodesQuestion, Question, Scores, VictimsAnswer, VictimsQuestion
from podberth.framework.status import PluginError
from podberth.kube.connection import as_file, no_password
from podberth.kube.errors import described
from podberth.model.mistakes import misfit
from podberth.model.pod import Pod

if TYPE_CHECKING:
    import aiohttp

log = structlog.get_logger("extenders")

_DEFAULT_TIMEOUT = 5.0
Answer = TypeVar("Answer", bound=Struct)
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""As Go decodes it: a number beyond that is an error of the extender."""


class ExtenderError(Exception):
    """An extender could not be asked, or said that it failed; the text is kube-scheduler's where there is one."""


class _Meta(Struct, frozen=True):
    name: str = ""


class _Node(Struct):
    metadata: _Meta = _Meta()


class _NodeList(Struct):
    items: list[_Node] | None = None


class _Filtered(Struct):
    nodes: _NodeList | None = None
    nodenames: list[str] | None = None
    failednodes: dict[str, str] | None = None
    failedandunresolvablenodes: dict[str, str] | None = None
    error: str = ""


class _Host(Struct):
    host: str = ""
    score: Int64 = 0


class _Victim(Struct):
    uid: str = ""


class _Victims(Struct):
    pods: list[dict[str, Any]] | None = None
    numpdbviolations: Int64 = 0


class _Preempted(Struct):
    nodenametometavictims: dict[str, dict[str, Any] | None] | None = None


class _Bound(Struct):
    error: str = ""


class Extenders:
    """Calls all extenders of the configuration over HTTP."""

    def __init__(self, extenders: Iterable[Extender], originals: Originals, answer: Callable[[Stimulus], None]) -> None:
        """Raises ConfigError for certificates that can't be used."""
        self._originals = originals
        self._answer = answer
        self._tls = {_key(extender): _tls_context(extender, i) for i, extender in enumerate(extenders)}
        self._session: aiohttp.ClientSession | None = None
        self._under_way = UnderWay()
        self.carries: Carries = {AskExtenders: self.ask}

    def ask(self, instruction: AskExtenders) -> None:
        """Put a question; `answer` gets ExtendersAnswered or ExtendersFailed."""
        self._under_way.start(self._ask(instruction.question))

    async def close(self) -> None:
        """Cancel the calls in progress; their pods stay pending."""
        await self._under_way.drain(0.0)
        if self._session is not None:
            await self._session.close()

    async def bind(self, extender: Extender, pod: Pod, node: str) -> None:
        """Have an extender bind a pod.

        Raises ExtenderError.
        """
        asked = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node}
        answer = await self._send(extender, extender.bind_verb, asked, _Bound)
        if answer.error:
            raise ExtenderError(answer.error)

    async def _ask(self, question: Question) -> None:
        try:
            match question:
                case NodesQuestion():
                    self._answer(ExtendersAnswered(question, await self._about_nodes(question)))
                case VictimsQuestion():
                    self._answer(ExtendersAnswered(question, await self._about_victims(question)))
        except ExtenderError as error:
            log.warning("extender failed", pod=question.pod.key, error=str(error))
            self._answer(ExtendersFailed(question, str(error)))
        except Exception:
            # Whatever it was, the pod waits for an answer.
            log.exception("asking extenders failed, this is a bug of Berth", pod=question.pod.key)
            self._answer(ExtendersFailed(question, "a bug of the scheduler, whose log says more"))

    async def _about_nodes(self, question: NodesQuestion) -> NodesAnswer:
        kept = list(question.nodes)
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for extender in question.extenders:
            if not kept:
                break
            if not extender.filter_verb:
                continue
            try:
                answer = await self._send(
                    extender, extender.filter_verb, self._nodes(extender, question, kept), _Filtered
                )
                if answer.error:
                    raise ExtenderError(answer.error)
                left = _kept(extender, answer, kept)
            except ExtenderError as error:
                _unless_ignorable(extender, question.pod, error)
                continue
            failed |= answer.failednodes or {}
            unresolvable |= answer.failedandunresolvablenodes or {}
            kept = left
        prioritizing = [extender for extender in question.extenders if extender.prioritize_verb]
        scores = await asyncio.gather(*(self._scores(e, question, kept) for e in prioritizing)) if len(kept) > 1 else []
        return NodesAnswer(frozenset(kept), failed, unresolvable, [found for found in scores if found is not None])

    async def _scores(self, extender: Extender, question: NodesQuestion, kept: list[str]) -> Scores | None:
        """Return an extender's scores; None when it gives none, and the other scores decide."""
        try:
            asked = self._nodes(extender, question, kept)
            raw = await self._post(extender, extender.prioritize_verb, asked)
            found = [_convert(one, _Host, extender.prioritize_verb) for one in _list(raw, extender.prioritize_verb)]
        except ExtenderError as error:
            log.info("no scores from extender", pod=question.pod.key, extender=extender.url_prefix, error=str(error))
            return None
        return Scores(extender.url_prefix, extender.weight, {host.host: host.score for host in found})

    async def _about_victims(self, question: VictimsQuestion) -> VictimsAnswer:
        victims: VictimsAnswer = {
            node: (tuple(pod.uid for pod in pods), violations) for node, (pods, violations) in question.victims.items()
        }
        there = {pod.uid: pod for pods, _ in question.victims.values() for pod in pods}
        for extender in question.extenders:
            if not victims:
                break
            try:
                asked = self._victims(extender, question.pod, victims, there)
                answer = await self._send(extender, extender.preempt_verb, asked, _Preempted)
                victims = _left(extender, answer)
            except ExtenderError as error:
                _unless_ignorable(extender, question.pod, error)
        return victims

    def _nodes(self, extender: Extender, question: NodesQuestion, kept: list[str]) -> dict[str, Any]:
        asked: dict[str, Any] = {"Pod": self._pod(question.pod), "Nodes": None, "NodeNames": None}
        if extender.node_cache_capable:
            asked["NodeNames"] = kept
        else:
            found = (self._originals.get("Node", "", name) for name in kept)
            asked["Nodes"] = {"metadata": {}, "items": [node for node in found if node is not None]}
        return asked

    def _victims(
        self,
        extender: Extender,
        pod: Pod,
        victims: Mapping[str, tuple[tuple[str, ...], int]],
        there: Mapping[str, Pod],
    ) -> dict[str, Any]:
        asked: dict[str, Any] = {"Pod": self._pod(pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": None}
        meta = extender.node_cache_capable
        asked["NodeNameToMetaVictims" if meta else "NodeNameToVictims"] = {
            node: {
                "Pods": [{"UID": uid} if meta else self._pod(there[uid]) for uid in uids if meta or uid in there],
                "NumPDBViolations": violations,
            }
            for node, (uids, violations) in victims.items()
        }
        return asked

    def _pod(self, pod: Pod) -> msgspec.Raw:
        found = self._originals.get("Pod", pod.namespace, pod.name)
        if found is None:
            raise ExtenderError(f"pod {pod.key} is gone")
        return found

    async def _send(self, extender: Extender, verb: str, asked: dict[str, Any], answer: type[Answer]) -> Answer:
        return _convert(await self._post(extender, verb, asked), answer, verb)

    async def _post(self, extender: Extender, verb: str, asked: dict[str, Any]) -> Any:
        """Post one call, and return the decoded JSON of its answer.

        Raises ExtenderError.
        """
        import aiohttp  # slow to import, and few configurations have extenders

        if self._session is None:
            self._session = aiohttp.ClientSession(headers={"Content-Type": "application/json"}, trust_env=True)
        url = f"{extender.url_prefix.rstrip('/')}/{verb}"
        limit = aiohttp.ClientTimeout(total=parse_duration(extender.http_timeout) or _DEFAULT_TIMEOUT)
        tls = self._tls[_key(extender)]
        server_name = extender.tls_config.server_name if extender.tls_config is not None else ""
        try:
            async with self._session.post(
                url,
                data=msgspec.json.encode(asked),
                timeout=limit,
                ssl=tls if tls is not None else True,
                server_hostname=server_name or None,
            ) as answer:
                if answer.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {answer.status}")
                return msgspec.json.decode(await answer.read())
        except TimeoutError as error:
            late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderError(f'Post "{url}": {late}') from error
        except aiohttp.ClientError as error:
            raise ExtenderError(f'Post "{url}": {described(error)}') from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise ExtenderError(f"{verb} of extender at URL {url}: {error}") from error


class ExtenderBinder:
    """An extender that binds, as the first Bind plugin of the pods that it wants."""

    def __init__(self, extender: Extender, extenders: Extenders) -> None:
        self.name = extender.url_prefix
        self.extender = extender
        self.time_limit = parse_duration(extender.http_timeout) or _DEFAULT_TIMEOUT
        self._extenders = extenders

    async def bind(self, assumed: AssumedPod) -> BindResult:
        """Have the extender bind the pod. If it fails and is `ignorable`, the next Bind plugin is asked.

        Raises PluginError.
        """
        try:
            await self._extenders.bind(self.extender, assumed.pod, assumed.node)
        except ExtenderError as error:
            if not self.extender.ignorable:
                raise PluginError(self.name, str(error), "Bind") from error
            log.info("extender ignored", pod=assumed.pod.key, extender=self.name, error=str(error))
            return BindResult.SKIP
        return BindResult.DONE


def _unless_ignorable(extender: Extender, pod: Pod, error: ExtenderError) -> None:
    if not extender.ignorable:
        raise error
    log.info("extender ignored", pod=pod.key, extender=extender.url_prefix, error=str(error))


def _kept(extender: Extender, answer: _Filtered, asked: list[str]) -> list[str]:
    """Return the nodes that a filter left, in their order."""
    if extender.node_cache_capable and answer.nodenames is not None:
        known = set(asked)
        unknown = next((name for name in answer.nodenames if name not in known), None)
        if unknown is not None:
            raise ExtenderError(
                f'extender "{extender.url_prefix}" claims a filtered node "{unknown}" '
                "which is not found in the input node list"
            )
        left = set(answer.nodenames)
    else:
        items = answer.nodes.items if answer.nodes is not None else None
        left = {node.metadata.name for node in items or ()}
    return [name for name in asked if name in left]


def _left(extender: Extender, answer: _Preempted) -> VictimsAnswer:
    """Return the nodes that preemption may use, with at least one victim each."""
    found: dict[str, tuple[tuple[str, ...], int]] = {}
    for node, given in (answer.nodenametometavictims or {}).items():
        victims = _convert(given or {}, _Victims, extender.preempt_verb)
        uids = tuple(_convert(pod, _Victim, extender.preempt_verb).uid for pod in victims.pods or ())
        if uids:
            found[node] = (uids, victims.numpdbviolations)
        elif not extender.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{node}"')
    return found


def _convert(document: Any, target: type[Answer], verb: str) -> Answer:
    """Decode as Go decodes JSON: the case of a field's name does not matter, and null is the zero value."""
    if document is None:
        document = {}
    if isinstance(document, dict):
        document = {key.lower(): value for key, value in document.items() if value is not None}
    try:
        return msgspec.convert(document, target)
    except msgspec.ValidationError as error:
        raise ExtenderError(f"{verb}: {misfit(error)}") from error


def _list(document: Any, verb: str) -> list[Any]:
    if document is None:
        return []
    if not isinstance(document, list):
        raise ExtenderError(f"{verb}: expected a list of hosts and scores")
    return document


def _key(extender: Extender) -> tuple[str, TLSConfig | None, bool]:
    return extender.url_prefix, extender.tls_config, extender.enable_https


def _tls_context(extender: Extender, index: int) -> ssl.SSLContext | None:
    """Return the TLS context of an extender; None: the configuration says nothing (makeTransport).

    Raises ConfigError.
    """
    given = extender.tls_config or TLSConfig()
    if given == TLSConfig() and not extender.enable_https:
        return None
    path = f"extenders[{index}].tlsConfig"
    try:
        ca_data = _pem(given.ca_data).decode() if given.ca_data else None
        context = ssl.create_default_context(cafile=given.ca_file or None, cadata=ca_data)
        # RFC 5280 strictness came with Python 3.13; many CAs (no key usage) do not meet it, and Go has none.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        has_ca = bool(given.ca_file or given.ca_data)
        if given.insecure or (extender.enable_https and not has_ca):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if given.cert_file or given.cert_data:
            _load_pair(context, given)
    except (OSError, ValueError) as error:  # ssl.SSLError and binascii.Error are such
        files = ", ".join(name for name in (given.ca_file, given.cert_file, given.key_file) if name) or "inline data"
        raise ConfigError(
            f'{path}: Invalid value: "{files}": want certificates and a key in PEM form: {described(error)}'
        ) from error
    return context


def _load_pair(context: ssl.SSLContext, given: TLSConfig) -> None:
    certificate = _pem(given.cert_data) if given.cert_data else given.cert_file
    key = _pem(given.key_data) if given.key_data else given.key_file
    with as_file(certificate) as cert_file, as_file(key or certificate) as key_file:
        context.load_cert_chain(cert_file, key_file, password=no_password)


def _pem(data: str) -> bytes:
    return base64.b64decode(data, validate=True)
