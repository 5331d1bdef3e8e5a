"""Extenders over real HTTP: what is sent, in which order, and what comes of answers good and bad."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from podberth.app.extenders import ExtenderBinder, Extenders, _Filtered, _kept
from podberth.app.watch import Originals
from podberth.engine.instructions import AskExtenders
from podberth.engine.stimuli import ExtendersAnswered, ExtendersFailed, Stimulus
from podberth.framework.binding import AssumedPod, BindResult
from podberth.framework.config import ConfigError, decode
from podberth.framework.extenders import NodesAnswer, NodesQuestion, Scores, VictimsQuestion, in_order
from podberth.framework.status import PluginError
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import Object, configuration, node, pod
from tests.extender import ExtenderServer, keep, names, rate
from tests.unit.kube.kubeconfigs import Authority

DECODER = Decoder()
ORIGINALS = Originals(["Pod", "Node"])
WEB, SMALL, TINY = (
    ORIGINALS.keeping("Pod", DECODER.pod, lambda _: False)(wire.encode(pod(name, labels={"whole": "yes"})))
    for name in ("web", "small", "tiny")
)
for _name in ("n1", "n2", "n3"):
    ORIGINALS.keeping("Node", DECODER.node, lambda _: False)(wire.encode(node(_name)))


def configured(*extenders: Object) -> Any:
    return decode(configuration(extenders=[{"httpTimeout": "60s", **one} for one in extenders])).extenders


async def ask(make: Callable[[Any], Any], *extenders: Object) -> Stimulus:
    """The answer to a question that is made for these extenders."""
    answers: asyncio.Queue[Stimulus] = asyncio.Queue()
    found = in_order(configured(*extenders))
    shell = Extenders(found, ORIGINALS, answers.put_nowait)
    question = make(found)
    shell.ask(AskExtenders(question.pod, question))
    async with asyncio.timeout(60):
        answer = await answers.get()
    await shell.close()
    return answer


async def about_nodes(*extenders: Object) -> Any:
    answer = await ask(lambda found: NodesQuestion(WEB, found, ("n1", "n2", "n3")), *extenders)
    return answer.answer if isinstance(answer, ExtendersAnswered) else answer


@pytest.mark.parametrize("capable", [False, True], ids=["whole nodes", "names"])
async def test_filter_and_prioritize(capable: bool) -> None:
    """The next filter is asked about what the one before left, and scores about what all have left."""
    first = {"filter": keep("n1", "n2", failed={"n3": "too shallow"}), "rank": rate(n1=2, n2=10)}
    with ExtenderServer(first) as one, ExtenderServer({"sieve": keep("n1", "n2", "n3")}) as other:
        answered = await about_nodes(
            {
                "urlPrefix": one.url,
                "filterVerb": "filter",
                "prioritizeVerb": "rank",
                "weight": 5,
                "nodeCacheCapable": capable,
            },
            {"urlPrefix": f"{other.url}/", "filterVerb": "sieve", "nodeCacheCapable": capable},
        )
    assert answered == NodesAnswer(
        frozenset(("n1", "n2")), {"n3": "too shallow"}, {}, [Scores(one.url, 5, {"n1": 2, "n2": 10})]
    )
    assert (one.verbs(), other.verbs()) == (["filter", "rank"], ["sieve"])
    (_, asked), (_, then) = one.asked
    assert asked["Pod"]["metadata"]["labels"] == {"whole": "yes"}
    assert (asked["NodeNames"] is None, asked["Nodes"] is None) == (not capable, capable)
    assert (names(asked), names(then), names(other.asked[0][1])) == (["n1", "n2", "n3"], ["n1", "n2"], ["n1", "n2"])


async def test_nobody_scores_a_single_node() -> None:
    """There is nothing left to choose; nor is anybody asked once no node is left."""
    with ExtenderServer({"filter": keep("n2"), "rank": rate(), "none": keep()}) as server:
        last = {"urlPrefix": server.url, "prioritizeVerb": "rank", "weight": 1}
        answered = await about_nodes({"urlPrefix": server.url, "filterVerb": "filter"}, last)
        assert answered == NodesAnswer(frozenset(["n2"]), {}, {}, [])
        answered = await about_nodes(
            {"urlPrefix": server.url, "filterVerb": "none"}, {"urlPrefix": server.url, "filterVerb": "filter"}
        )
        assert answered == NodesAnswer(frozenset(), {}, {}, [])
    assert server.verbs() == ["filter", "none"]


def lowercase(asked: Object) -> Object:
    return {"nodenames": ["n1"], "failednodes": None, "failedAndUnresolvableNodes": {"n2": "too deep"}, "other": 7}


async def test_field_names_in_any_case() -> None:
    """As Go reads JSON; what is not known is passed over."""
    with ExtenderServer({"filter": lowercase}) as server:
        answered = await about_nodes({"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True})
    assert answered == NodesAnswer(frozenset(["n1"]), {}, {"n2": "too deep"}, [])


BAD: dict[str, tuple[Any, str]] = {
    "status": (lambda asked: 503, "failed filter with extender at URL {url}/filter, code 503"),
    "error": (lambda asked: {"Error": "the lock is broken"}, "the lock is broken"),
    "a node from nowhere": (
        lambda asked: {"NodeNames": ["n7"]},
        'extender "{url}" claims a filtered node "n7" which is not found in the input node list',
    ),
    "not what was asked for": (lambda asked: [1, 2], "filter: expected a mapping, got a list"),
    "nested too deep": (
        lambda asked: b"[" * 100_000,
        "filter of extender at URL {url}/filter: maximum recursion depth exceeded while deserializing an object",
    ),
    "wrong type": (lambda asked: {"NodeNames": "n1"}, "filter: nodenames: expected a list, got text"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("ignorable", [False, True], ids=["needed", "ignorable"])
async def test_failures(case: str, ignorable: bool) -> None:
    """In kube-scheduler's words where it has any; one that is ignorable is as if it were not there."""
    rule, message = BAD[case]
    with ExtenderServer({"filter": rule}) as server:
        extender = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True, "ignorable": ignorable}
        answer = await about_nodes(extender)
    if ignorable:
        assert answer == NodesAnswer(frozenset(("n1", "n2", "n3")), {}, {}, [])
    else:
        assert isinstance(answer, ExtendersFailed)
        assert answer.message == message.format(url=server.url)


async def test_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod gets an answer; the log has the traceback."""
    monkeypatch.delattr(Originals, "get")
    with ExtenderServer({}) as server, capture_logs() as logs:
        answer = await about_nodes({"urlPrefix": server.url, "filterVerb": "filter"})
    assert isinstance(answer, ExtendersFailed)
    assert answer.message == "a bug of the scheduler, whose log says more"
    assert [line["event"] for line in logs] == ["asking extenders failed, this is a bug of Berth"]


class Counted(list[str]):
    """Names, and how often they were gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_names_are_gone_through_once_not_once_for_each() -> None:
    """An answer about thousands of nodes would hold the loop for seconds."""
    (extender,) = configured({"urlPrefix": "http://e", "filterVerb": "filter", "nodeCacheCapable": True})
    asked = Counted(f"n{i}" for i in range(50))
    assert _kept(extender, _Filtered(nodenames=asked[::-1]), asked) == asked
    assert asked.times < 5


async def test_nobody_there() -> None:
    """The address is named."""
    with ExtenderServer({}) as server:
        url = server.url
    answer = await about_nodes({"urlPrefix": url, "filterVerb": "filter"})
    assert isinstance(answer, ExtendersFailed)
    assert answer.message.startswith(f'Post "{url}/filter": ')


async def test_too_late() -> None:
    """An answer that takes longer than httpTimeout is none."""
    going = threading.Event()

    def late(asked: Object) -> Object:
        going.wait(60)
        return {}

    with ExtenderServer({"filter": late}) as server:
        answer = await about_nodes({"urlPrefix": server.url, "filterVerb": "filter", "httpTimeout": "50ms"})
        going.set()
    assert isinstance(answer, ExtendersFailed)
    assert answer.message == (
        f'Post "{server.url}/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    )


@pytest.mark.parametrize("answer", [500, [{"Host": "n1", "Score": 2**63}]], ids=["status", "a score beyond int64"])
async def test_scores_may_fail(answer: Any) -> None:
    """The others decide then, whether or not the extender is ignorable."""
    with ExtenderServer({"rank": lambda asked: answer}) as server:
        answered = await about_nodes({"urlPrefix": server.url, "prioritizeVerb": "rank", "weight": 1})
    assert answered == NodesAnswer(frozenset(("n1", "n2", "n3")), {}, {}, [])


async def about_victims(*extenders: Object) -> Any:
    victims = {"n1": ((SMALL,), 1), "n2": ((TINY,), 0)}
    answer = await ask(lambda found: VictimsQuestion(WEB, found, victims), *extenders)
    assert isinstance(answer, ExtendersAnswered | ExtendersFailed)
    return answer.answer if isinstance(answer, ExtendersAnswered) else answer.message


@pytest.mark.parametrize("capable", [False, True], ids=["whole pods", "uids"])
async def test_victims(capable: bool) -> None:
    """The extender takes nodes away, or changes who has to go."""

    def preempt(asked: Object) -> Object:
        return {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "default/tiny"}], "NumPDBViolations": 3}}}

    with ExtenderServer({"preempt": preempt}) as server:
        extender = {"urlPrefix": server.url, "preemptVerb": "preempt", "nodeCacheCapable": capable}
        assert await about_victims(extender) == {"n1": (("default/tiny",), 3)}
    asked = server.asked[0][1]
    if capable:
        assert asked["NodeNameToVictims"] is None
        assert asked["NodeNameToMetaVictims"]["n1"] == {"Pods": [{"UID": "default/small"}], "NumPDBViolations": 1}
    else:
        assert asked["NodeNameToMetaVictims"] is None
        assert asked["NodeNameToVictims"]["n2"]["Pods"][0]["metadata"]["name"] == "tiny"


async def test_a_node_without_victims() -> None:
    """An error, or no candidate if the extender is ignorable."""
    with ExtenderServer({"preempt": lambda asked: {"nodeNameToMetaVictims": {"n1": {"Pods": []}}}}) as server:
        extender = {"urlPrefix": server.url, "preemptVerb": "preempt"}
        assert await about_victims(extender) == 'expected at least one victim pod on node "n1"'
        assert await about_victims(extender | {"ignorable": True}) == {}


BindRule = Callable[[Object], Any]


@pytest.mark.parametrize(
    ("id", "rule", "ignorable", "outcome"),
    [
        ("bound", lambda asked: {}, False, BindResult.DONE),
        ("refused", lambda asked: {"Error": "no"}, False, 'running Bind plugin "{url}": no'),
        ("left to others", lambda asked: 500, True, BindResult.SKIP),
    ],
    ids=lambda value: value if isinstance(value, str) and "{" not in value else "",
)
async def test_bind(id: str, rule: BindRule, ignorable: bool, outcome: Any) -> None:
    """The extender binds in the scheduler's stead."""
    with ExtenderServer({"bind": rule}) as server:
        (extender,) = configured({"urlPrefix": server.url, "bindVerb": "bind", "ignorable": ignorable})
        shell = Extenders([extender], ORIGINALS, lambda _: None)
        binder: Callable[[AssumedPod], Awaitable[BindResult]] = ExtenderBinder(extender, shell).bind
        if isinstance(outcome, BindResult):
            assert await binder(AssumedPod(WEB, 0, "n1")) is outcome
        else:
            with pytest.raises(PluginError) as failed:
                await binder(AssumedPod(WEB, 0, "n1"))
            assert str(failed.value) == outcome.format(url=server.url)
        await shell.close()
    wanted = {"PodName": "web", "PodNamespace": "default", "PodUID": "default/web", "Node": "n1"}
    assert server.asked == [("bind", wanted)]


@pytest.mark.parametrize(
    ("tls", "says"),
    [
        ({"caData": "!!"}, 'extenders[0].tlsConfig: Invalid value: "inline data": want certificates'),
        ({"caFile": "/no/such/file"}, 'extenders[0].tlsConfig: Invalid value: "/no/such/file": want certificates'),
        ({"certData": "bm90IFBFTQ==", "keyData": "bm90IFBFTQ=="}, "extenders[0].tlsConfig: Invalid value: "),
    ],
    ids=["no base64", "no such file", "no certificate"],
)
async def test_certificates_that_are_none(tls: Object, says: str) -> None:
    """Refused at the start, with the field's path."""
    with pytest.raises(ConfigError) as refused:
        Extenders(configured({"urlPrefix": "https://e", "tlsConfig": tls}), ORIGINALS, lambda _: None)
    assert str(refused.value).startswith(says)


async def test_a_key_with_a_password(tmp_path: Path) -> None:
    """Nobody is asked for it: the terminal of a scheduler has no reader."""
    certificate, key = Authority(tmp_path, "ca").issue("extender")
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    tls = {"certFile": str(certificate), "keyFile": str(locked)}
    with pytest.raises(ConfigError, match="the key is encrypted"):
        Extenders(configured({"urlPrefix": "https://e", "tlsConfig": tls}), ORIGINALS, lambda _: None)


@pytest.mark.parametrize(
    ("id", "fields", "message"),
    [
        ("unchecked", {"enableHTTPS": True}, ""),
        ("checked", {"enableHTTPS": True, "tlsConfig": {"caFile": "{ca}"}}, ""),
        ("inline", {"tlsConfig": {"caData": "{ca_data}", "certData": "{cert_data}", "keyData": "{key_data}"}}, ""),
        ("insecure", {"tlsConfig": {"insecure": True}}, ""),
        ("another name", {"tlsConfig": {"caFile": "{ca}", "serverName": "crane.test"}}, "certificate verify failed"),
        ("nothing said", {}, "certificate verify failed"),
    ],
)
async def test_https(id: str, fields: Object, message: str, tmp_path: Path) -> None:
    """Certificates are checked as kube-scheduler checks them: not at all with enableHTTPS and no CA."""
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    values = {"{ca}": str(authority.cert)}
    for name, path in (("{ca_data}", authority.cert), ("{cert_data}", certificate), ("{key_data}", key)):
        values[name] = base64.b64encode(path.read_bytes()).decode()
    filled = json.loads(json.dumps(fields))
    for name, value in filled.get("tlsConfig", {}).items():
        filled["tlsConfig"][name] = values.get(value, value) if isinstance(value, str) else value
    with ExtenderServer({"filter": keep("n1")}, tls) as server:
        answer = await about_nodes({"urlPrefix": server.url, "filterVerb": "filter", **filled})
    if message:
        assert isinstance(answer, ExtendersFailed)
        assert message in answer.message
    else:
        assert answer == NodesAnswer(frozenset(["n1"]), {}, {}, [])
