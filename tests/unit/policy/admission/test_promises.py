"""A pod's promise that can't be read is refused at the API, where its author sees it."""

from __future__ import annotations

import pytest

from podberth.model.promise import ANNOTATION
from podberth.policy.options import Pass
from tests.unit.policy.admission.builders import Object, config_map, pod, review
from tests.unit.policy.admission.test_reviewer import asked, reviewer

GOOD, BAD = {ANNOTATION: "true"}, {ANNOTATION: "ssd"}


@pytest.mark.parametrize(
    ("new", "old", "pass_", "allowed"),
    [
        pytest.param(pod(annotations=GOOD), None, "validate", True, id="good"),
        pytest.param(pod(annotations=BAD), None, "validate", False, id="bad"),
        pytest.param(pod(annotations=BAD), None, "mutate", True, id="the mutating pass is no judge"),
        pytest.param(config_map(annotations=BAD), None, "validate", True, id="no pod"),
        pytest.param(pod(annotations=BAD, labels={"a": "b"}), pod(annotations=BAD), "validate", True, id="bad before"),
        pytest.param(pod(annotations=BAD), pod(annotations=GOOD), "validate", False, id="turns bad"),
        pytest.param(pod(), pod(annotations=BAD), "validate", True, id="taken away"),
    ],
)
async def test_unreadable_promise(new: Object, old: Object | None, pass_: Pass, allowed: bool) -> None:
    """Only the validating pass refuses, and only what the request itself brings."""
    document = review(new, old=old, operation="UPDATE" if old else "CREATE")
    response = await asked(reviewer(), document, pass_)
    assert response["allowed"] is allowed
    if not allowed:
        assert response["status"]["code"] == 403
        assert response["status"]["message"].startswith(f"metadata.annotations: {ANNOTATION}: Invalid value: want")
