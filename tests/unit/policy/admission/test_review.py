"""What is no proper review: a 400, or a review that says no; never yes, never a crash."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from podberth.policy.admission.review import HEAD_BYTES, Hint, hint
from podberth.policy.admission.reviewer import Reviewer
from tests.unit.policy.admission.builders import UID, config_map, encoded, pod, policy, review, rule
from tests.unit.policy.admission.test_reviewer import DEFAULT_TEAM, ROUTE, asked, response_of, reviewer

EVERYTHING = policy("all", rule(reject=True))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"<html>",
        encoded({}),
        encoded({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}),
        encoded({**review(pod()), "apiVersion": "admission.k8s.io/v1beta1"}),
        encoded({**review(pod()), "kind": "ConversionReview"}),
        encoded({**review(pod()), "request": None}),
        encoded({**review(pod()), "request": []}),
        encoded(review(pod(), uid="")),
        encoded(review(pod(), uid=7)),
        encoded(review(pod(), uid="u" * 300)),
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":' + b"[" * 100_000,
    ],
    ids=lambda body: f"{len(body)} bytes {body[:12]!r}",
)
async def test_no_review(body: bytes) -> None:
    """Bytes without a v1 review that has a uid are a 400 that says what was expected."""
    answer = await reviewer().answer(body, "mutate")
    assert answer.status == 400
    assert b"want" in answer.body and len(answer.body) < 500


@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "PATCH"},
        {"operation": "create"},
        {"operation": None},
        {"kind": None},
        {"kind": {"kind": "Pod"}},
        {"object": None},
        {"object": []},
        {"object": "pod"},
        {"object": {"metadata": []}},
        {"object": {"metadata": {"labels": {"a": 1}}}},
        {"object": {"metadata": {"annotations": ["a"]}}},
        {"object": {"metadata": {}, "spec": []}},
        {"oldObject": {"metadata": 5}},
        {"namespace": 7},
        {"userInfo": {"groups": "all"}},
        {"dryRun": "yes"},
    ],
    ids=lambda fields: json.dumps(fields)[:60],
)
async def test_not_understood_is_no(request_fields: dict[str, Any]) -> None:
    """A request that can't be understood is denied with a 400, even where no policy exists."""
    response = await asked(reviewer(), review(pod(), **request_fields))
    assert (response["uid"], response["allowed"], response["status"]["code"]) == (UID, False, 400)
    assert "request" in response["status"]["message"]


@pytest.mark.parametrize("uid", ["x", "../../etc", 'q"\\', "line\nbreak", "ü", "\u2028"])
async def test_uid_is_echoed_as_it_is(uid: str) -> None:
    """Whatever the uid is made of, the very same comes back."""
    assert (await asked(reviewer(), review(pod(), uid=uid)))["uid"] == uid


async def test_deep_nesting() -> None:
    """A pod whose spec is nested a hundred thousand deep is refused; in a field nobody reads it may be anything."""
    deep = b"[" * 100_000 + b"]" * 100_000
    body = encoded(review(pod())).replace(b'"default-scheduler"', deep)
    answer = await reviewer().answer(body, "mutate")
    assert answer.status == 400 or response_of(answer)["allowed"] is False


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def paths(document: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of a document."""
    found = [above]
    if isinstance(document, dict):
        for key, value in document.items():
            found += paths(value, (*above, key))
    if isinstance(document, list):
        for i, value in enumerate(document):
            found += paths(value, (*above, i))
    return found


WHOLE = review(
    pod(labels={"a": "b"}, annotations={"c": "d"}, ownerReferences=[{"kind": "ReplicaSet", "controller": True}]),
    "UPDATE",
    old=pod(),
)
PLACES = paths(WHOLE)
BY: Reviewer = reviewer(DEFAULT_TEAM, ROUTE)
NO: Reviewer = reviewer(EVERYTHING)


async def proper(by: Reviewer, body: bytes) -> None:
    """The invariant: a 400, or a well-formed review with the uid that was sent; and no yes out of ignorance."""
    for pass_ in ("mutate", "validate"):
        answer = await by.answer(body, pass_)
        assert answer.status in (200, 400)
        if answer.status == 200:
            sent = json.loads(body)["request"]
            response = response_of(answer, pass_)
            assert response["uid"] == sent["uid"]
            if by is NO and response["allowed"]:
                exempt = "exempt" in response.get("auditAnnotations", {})
                assert exempt or sent.get("namespace") != "team"  # policies are their namespace's


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(place=st.sampled_from(PLACES), value=json_values, drop=st.booleans())
async def test_fuzzed_reviews(place: tuple[Any, ...], value: Any, drop: bool) -> None:
    """A review with any part of it replaced by anything, or left out, gets a proper answer."""
    document = copy.deepcopy(WHOLE)
    if not place:
        document = value
    else:
        holder: Any = document
        for part in place[:-1]:
            holder = holder[part]
        if drop:
            del holder[place[-1]]
        else:
            holder[place[-1]] = value
    await proper(BY, encoded(document))
    await proper(NO, encoded(document))


@settings(max_examples=300, deadline=None)
@given(
    cut=st.integers(0, len(encoded(WHOLE))),
    noise=st.binary(max_size=6),
    skip=st.integers(0, 8),
)
@example(cut=0, noise=b"\xef\xbb\xbf", skip=0)
async def test_fuzzed_bytes(cut: int, noise: bytes, skip: int) -> None:
    """Bytes inserted or replaced anywhere get a proper answer, valid JSON or not."""
    whole = encoded(WHOLE)
    body = whole[:cut] + noise + whole[cut + skip :]
    for by in (BY, NO):
        for pass_ in ("mutate", "validate"):
            answer = await by.answer(body, pass_)
            assert answer.status in (200, 400)
            if answer.status == 200:
                response_of(answer, pass_)


@settings(max_examples=200, deadline=None)
@given(
    labels=st.dictionaries(st.text(max_size=40), st.text(max_size=40), max_size=8),
    annotations=st.dictionaries(st.text(max_size=300), st.text(max_size=3000), max_size=8),
)
async def test_hostile_metadata(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Whatever keys and values an object has, the answer is a proper review, for pods and others."""
    for obj in (pod(labels=labels, annotations=annotations), config_map(labels=labels, annotations=annotations)):
        body = encoded(review(obj))
        await proper(BY, body)
        assert (await BY.answer(body, "mutate")).status == 200


@pytest.mark.parametrize("text", ["\\ud800", "\\udfff\\ud800", "\\u0000", "\\ud83d\\ude00"])
async def test_lone_surrogates(text: str) -> None:
    """Escapes that stand for no character are a 400, a no, or carried through; never a crash."""
    body = encoded(review(pod(annotations={"a": "TEXT"}, labels={"TEXT": "x"}))).replace(b"TEXT", text.encode())
    answer = await BY.answer(body, "mutate")
    assert answer.status in (200, 400)
    body = encoded(review(pod(), uid="TEXT")).replace(b"TEXT", text.encode())
    assert (await BY.answer(body, "mutate")).status in (200, 400)


def test_a_hint_is_taken_from_the_first_of_thousands_of_uids() -> None:
    """It is looked for before a namespace's slots are: what it costs must not depend on what the object holds."""
    owners = b",".join(b'{"uid":"uid-%d","namespace":"other"}' % i for i in range(4_000))
    body = bytearray(b'{"request": {"uid": "u-1", "namespace": "team", "object": {"owners": [%b]}}}' % owners)
    calls = 0

    def call(_frame: object, event: str, _what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(call)
    try:
        found = hint(body)
    finally:
        sys.setprofile(before)
    assert found == Hint("u-1", "team")
    assert calls < 50


def test_a_hint_is_of_the_head_alone() -> None:
    """What stands behind the head is the object's."""
    assert hint(b" " * HEAD_BYTES + b'"uid": "u-1", "namespace": "team"') == Hint()
