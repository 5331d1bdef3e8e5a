"""Label and annotation keys that mean something here, and the rules that make keys and values legal.

The seed (metadata-policy.md of Kubernetes 1.2) names the first three keys. Legality follows apimachinery
`pkg/api/validation/objectmeta.go`: annotation keys are checked in lower case, annotation values are free text.
"""

import re

from podberth.model.selectors import is_qualified_name

QOS = "scheduler.alpha.kubernetes.io/qos"
SCHEDULER_NAME = "scheduler.alpha.kubernetes.io/name"
AFFINITY = "scheduler.alpha.kubernetes.io/affinity"
VERDICT = "podberth.dev/verdict"
"""The annotation in which policies without a webhook keep the reasons for a refusal between the two passes."""
SEED_KEYS = frozenset({QOS, SCHEDULER_NAME, AFFINITY})

DEFAULT_SCHEDULER = "default-scheduler"
MIRROR = "kubernetes.io/config.mirror"

RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
ALLOWED_PREFIXES = ("app.kubernetes.io/",)
"""Kubernetes' own documentation hands this prefix to users (recommended labels)."""
NEVER_WRITTEN = frozenset({f"kubernetes.io/config.{word}" for word in ("mirror", "source", "hash", "seen")})
"""Annotations that the kubelet writes on mirror pods: a policy that set one would make pods exempt from policies."""

_DNS_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_subdomain(text: str) -> bool:
    """Return whether the text is a DNS-1123 subdomain, as names of objects and schedulers are."""
    return _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return whether the API accepts the text as a label's key."""
    return is_qualified_name(text)


def is_annotation_key(text: str) -> bool:
    """Return whether the API accepts the text as an annotation's key."""
    return is_qualified_name(text.lower())


def is_reserved(key: str, allowed_prefixes: tuple[str, ...] = ()) -> bool:
    """Return whether policies must not write this key: Kubernetes' own domains, less the seed's keys and what is
    allowed.
    """
    if key in NEVER_WRITTEN:
        return True
    domain, slash, _ = key.rpartition("/")
    if not slash or key in SEED_KEYS or key.startswith((*ALLOWED_PREFIXES, *allowed_prefixes)):
        return False
    domain = domain.lower()
    return any(domain == reserved or domain.endswith(f".{reserved}") for reserved in RESERVED_DOMAINS)
