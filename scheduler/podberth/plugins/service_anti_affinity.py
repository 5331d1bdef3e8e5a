"""Upstream until 1.22: plugins/serviceaffinity, its scoring half (the seed era's ServiceAntiAffinity priority)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAX_SCORE, PODS_ELSEWHERE, Plugin
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod
from podberth.model.selectors import is_qualified_name


class ServiceAntiAffinityArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Node labels over whose values the pods of one Service are spread. Each counts for an equal part of the score."""

    anti_affinity_labels_preference: list[str] = []
    """Node labels over whose values a Service's pods are spread. Each counts for an equal part of the score."""

    def errors(self, path: str) -> list[str]:
        """Return what is wrong with the labels."""
        return label_errors(self.anti_affinity_labels_preference, f"{path}.antiAffinityLabelsPreference")


class ServiceAntiAffinity(Plugin):
    """Prefer nodes whose label values hold few pods of the pod's first Service (by name)."""

    name = "ServiceAntiAffinity"
    depends_on = PODS_ELSEWHERE
    Args = ServiceAntiAffinityArgs
    events = ClusterEvent.NOTHING

    def __init__(self, args: ServiceAntiAffinityArgs) -> None:
        self._spread_over = args.anti_affinity_labels_preference

    @staticmethod
    def check(args: ServiceAntiAffinityArgs, path: str) -> list[str]:
        """Errors of the arguments."""
        return args.errors(path)

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """Pods of the Service on each node, those on their way out left out."""
        if not self._spread_over:
            return None
        services = services_of(pod, cluster)
        if not services:
            return np.zeros(len(feasible), dtype=np.int64)
        counted = cluster.affinity.on_rows(pod.namespace, services[0].selector)
        here: Ints = counted.by_row(cluster.nodes.rows)[feasible]
        return here

    def normalize(self, scores: Ints, pod: Pod, cluster: Cluster, feasible: Any) -> Ints:
        """100 where a label's value holds none of the pods, 0 where it holds all; nodes without the label get nothing.

        Floats, their order and the truncation are as upstream (updateNodeScoresForLabel).
        """
        total = float(scores.sum())
        result = np.zeros(len(scores), dtype=np.float64)
        for label in self._spread_over:
            codes = cluster.nodes.label(label).codes[feasible]
            there = codes >= 0
            held = np.bincount(codes[there], weights=scores[there])
            part = np.full(int(np.count_nonzero(there)), float(MAX_SCORE))
            if total > 0:
                part = float(MAX_SCORE) * ((total - held[codes[there]]) / total)
            result[there] += part / float(len(self._spread_over))
        return result.astype(np.int64)


def services_of(pod: Pod, cluster: Cluster) -> list[SelectingObject]:
    """The Services of the pod's namespace that select it, by name (upstream: in no order)."""
    return cluster.services.selecting(pod.namespace, pod.labels)


def label_errors(labels: Sequence[str], path: str) -> list[str]:
    """Label keys that can't be any, and keys that are there twice, in the API's grammar."""
    errors = []
    for i, label in enumerate(labels):
        if not is_qualified_name(label):
            errors.append(f'{path}[{i}]: Invalid value: "{label[:80]}": not a legal label key')
        elif label in labels[:i]:
            errors.append(f'{path}[{i}]: Duplicate value: "{label}"')
    return errors
