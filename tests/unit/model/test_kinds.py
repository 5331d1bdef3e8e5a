"""A decoder that is told of other profiles reads the annotation for those from then on."""

import json
from typing import Any

import msgspec

from podberth.model.annotated import AnnotationsRead
from podberth.model.kinds import Decoder
from tests.builders import pod

WISH: dict[str, Any] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}


def test_annotate() -> None:
    """Before: the annotation is passed over. After: it counts. The same again is no change."""
    document = pod("web")
    document["metadata"]["annotations"] = {"scheduler.alpha.kubernetes.io/affinity": json.dumps(WISH)}
    raw = msgspec.json.encode(document)
    name = document["spec"]["schedulerName"]
    decoder = Decoder()
    assert decoder.pod(raw).shape.required_node_affinity is None
    assert decoder.follow(AnnotationsRead({name: "add"}))
    assert decoder.pod(raw).shape.required_node_affinity is not None
    assert not decoder.follow(AnnotationsRead({name: "add"}))
