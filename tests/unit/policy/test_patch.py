"""JSON patches: pointers escaped, maps added whole, and always applicable."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podberth.apiserver.rules.patch import json_patch
from podberth.policy.patch import Patch, pointer

texts = st.text(alphabet="ab/~.", min_size=1, max_size=6)
maps = st.dictionaries(texts, texts, max_size=4)


def test_pointer() -> None:
    """A tilde is escaped before a slash (RFC 6901)."""
    assert pointer("metadata", "labels", "a/b~1~c") == "/metadata/labels/a~1b~01~0c"


@given(
    st.one_of(st.none(), st.fixed_dictionaries({}, optional={"labels": st.one_of(st.none(), maps)})),
    maps,
    st.booleans(),
)
def test_patch_applies(metadata: dict[str, Any] | None, writes: dict[str, str], absent: bool) -> None:
    """Whatever the object holds, the operations make `object` of it, and leave what they don't name."""
    obj: dict[str, Any] = {"kind": "X"} if absent else {"kind": "X", "metadata": metadata}
    before = copy.deepcopy(obj)
    patch = Patch(obj)
    patch.merge("metadata", "labels", writes)
    patch.set("spec", "schedulerName", "berth")
    assert obj == before
    assert json_patch(copy.deepcopy(obj), copy.deepcopy(patch.operations)) == patch.object
    held = ((obj.get("metadata") or {}).get("labels")) or {}
    assert ((patch.object.get("metadata") or {}).get("labels") or {}) == {**held, **writes}
