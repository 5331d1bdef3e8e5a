"""A node as the scheduler sees it."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice

import msgspec

from podberth.model import wire
from podberth.model.metadata import ClusterScoped
from podberth.model.pod import Interner
from podberth.model.quantity import BOUND, units
from podberth.model.resources import CORE, in_units, parse_amounts
from podberth.model.taints import Taint, Taints


class Node(ClusterScoped, gc=False, frozen=True):
    """One node: labels, taints, what it can give and which images it holds."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Those that a plugin of any profile reads (`framework.reads`)."""
    taints: Taints
    unschedulable: bool
    allocatable: Mapping[str, int]
    """Resource → amount (milli-cores, bytes, counts)."""
    allowed_pods: int
    images: Mapping[str, int]
    """Name of an image → its size in bytes."""
    features: frozenset[str]
    """The features that its kubelet declares (status.declaredFeatures)."""
    problems: tuple[str, ...]
    """Parts of the object that could not be read; the node takes part with the rest."""


NO_FEATURES: frozenset[str] = frozenset()
_taints_decoder = msgspec.json.Decoder(list[wire.Taint])
_amounts_decoder = msgspec.json.Decoder(wire.Amounts)
_images_decoder = msgspec.json.Decoder(list[wire.ContainerImage])


MOST_RESOURCES = 256
"""The number of a node's resources that count; real ones have a dozen."""
MOST_IMAGES = 1_000
"""The number of image names of a node that count. A kubelet writes those of 50 images unless told, largest first."""
_REMEMBERED_BYTES = 8192
"""Longer lists are not worth remembering: a kubelet may write a megabyte."""


def _bounded(size: int) -> int:
    """Return an image's size, kept where sums of sizes can't leave int64."""
    return max(0, min(size, BOUND))


@lru_cache(maxsize=1024)
def parse_allocatable(amounts: bytes) -> tuple[Mapping[str, int], int, tuple[str, ...]]:
    """Return (status.allocatable, its pods, problems). Nodes of one kind have equal bytes, and share the answer."""
    written = _amounts_decoder.decode(amounts) if amounts else {}
    many = _too_many("status.allocatable", "resources", len(written), MOST_RESOURCES)
    if many:
        # Each has a row of numbers for all nodes: what one kubelet writes must not be paid for by everybody.
        first = [name for name in CORE if name in written] + [name for name in written if name not in CORE]
        written = {name: written[name] for name in (*first[:MOST_RESOURCES], *("pods",) * ("pods" in written))}
    nano, problems = parse_amounts(written, "status.allocatable")
    return in_units(nano), units(nano.get("pods", 0)), (*problems, *many)


def _too_many(path: str, what: str, number: int, most: int) -> tuple[str, ...]:
    """That some of what a kubelet has written do not count; nothing if all do."""
    cut = number - most
    return (f"{path}: Too many: {cut} of its {what} count as none, want {most}",) if cut > 0 else ()


def parse_images(written: bytes) -> dict[str, int]:
    """Name → size in bytes of the images in status.images; of a name that is there twice, the first size."""
    sizes: dict[str, int] = {}
    for image in _images_decoder.decode(written) if written else ():
        for name in image.names or ():
            sizes.setdefault(name, _bounded(image.size_bytes))
    return sizes


def parse_node(node: wire.Node, interner: Interner) -> Node:
    """Build the scheduler's node; unreadable quantities count as zero and are named in `problems`.

    Raises msgspec.ValidationError when a field has the wrong JSON type.
    """
    meta = node.metadata
    taints = wire.present(node.spec.taints)
    amounts = wire.present(node.status.allocatable)
    images = parse_images(wire.present(node.status.images))
    read = parse_allocatable if len(amounts) <= _REMEMBERED_BYTES else parse_allocatable.__wrapped__
    allocatable, allowed_pods, problems = read(amounts)
    return Node(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=interner.labels(meta.labels),
        annotations=interner.node_annotations(meta.annotations),
        taints=tuple(Taint(t.key, t.value or "", t.effect) for t in _taints_decoder.decode(taints)) if taints else (),
        unschedulable=node.spec.unschedulable,
        allocatable=allocatable,
        allowed_pods=allowed_pods,
        images=images if len(images) <= MOST_IMAGES else dict(islice(images.items(), MOST_IMAGES)),
        features=frozenset(node.status.declared_features) if node.status.declared_features else NO_FEATURES,
        problems=problems + _too_many("status.images", "names", len(images), MOST_IMAGES),
    )
