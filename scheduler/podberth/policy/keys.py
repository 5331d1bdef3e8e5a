"""Label and annotation keys: those that mean something here, the rules that make keys legal, and those that policies
may not write.

The seed (metadata-policy.md of Kubernetes 1.2) names the first three keys. Legality follows apimachinery
`pkg/api/validation/objectmeta.go`: annotation keys are checked in lower case, annotation values are free text.

By some keys an object gets rights, sidecars or exceptions from others. A policy's author need not be allowed to create
the object that the policy changes: a ServiceAccount that a cluster admin creates would get the cloud role that the
policy names, and a pod the privileged container that an injector adds. Kubernetes' own domains are refused when a
policy is read (`is_kubernetes_own`); the others are left out when the policy's writes are made, so that its other rules
still apply. The admin lifts a reservation by `--allow-prefix`, adds one by `--reserve-prefix`, and switches the list
off by `--no-reserve-known`.
"""

import re

from msgspec import Struct

from podberth.model.selectors import is_qualified_name

QOS = "scheduler.alpha.kubernetes.io/qos"
SCHEDULER_NAME = "scheduler.alpha.kubernetes.io/name"
AFFINITY = "scheduler.alpha.kubernetes.io/affinity"
VERDICT = "podberth.dev/verdict"
"""The annotation in which policies without a webhook keep the reasons for a refusal between the two passes."""
SEED_KEYS = frozenset({QOS, SCHEDULER_NAME, AFFINITY})

DEFAULT_SCHEDULER = "default-scheduler"
MIRROR = "kubernetes.io/config.mirror"

KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
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


def is_kubernetes_own(key: str, allowed_prefixes: tuple[str, ...] = ()) -> bool:
    """Return whether policies must not write this key: Kubernetes' own domains, less the seed's keys and what is
    allowed.
    """
    if key in NEVER_WRITTEN:
        return True
    domain, slash, _ = key.rpartition("/")
    if not slash or key in SEED_KEYS or key.startswith((*ALLOWED_PREFIXES, *allowed_prefixes)):
        return False
    domain = domain.lower()
    return any(domain == own or domain.endswith(f".{own}") for own in KUBERNETES_DOMAINS)


# -- reserved keys ----------------------------------------------------------------------------------------------------

DOMAINS = {
    # Identities and networks that clouds give to pods, ServiceAccounts and Services.
    "amazonaws.com": "AWS identity or network",
    "k8s.aws": "AWS identity or network",
    "gke.io": "Google Cloud identity or network",
    "cloud.google.com": "Google Cloud identity or network",
    "azure.workload.identity": "Azure identity",
    "azure.com": "Azure identity or network",
    "alibabacloud.com": "Alibaba Cloud identity or network",
    "oraclecloud.com": "Oracle Cloud identity or network",
    "spiffe.io": "workload identity",
    # Containers, proxies and secrets that an injector adds to pods.
    "istio.io": "service mesh",
    "linkerd.io": "service mesh",
    "kuma.io": "service mesh",
    "hashicorp.com": "secrets or service mesh",
    "dapr.io": "sidecar",
    "opentelemetry.io": "sidecar",
    "jaegertracing.io": "sidecar",
    "datadoghq.com": "sidecar",
    "kubevirt.io": "sidecar",
    "vault.security.banzaicloud.io": "secrets",
    "secrets.doppler.com": "secrets",
    "emberstack.com": "copies of Secrets",
    "mittwald.de": "copies of Secrets",
    "appscode.com": "copies of Secrets",
    "cert-manager.io": "certificates",
    "bitnami.com": "copies of Secrets",  # sealedsecrets.bitnami.com/managed: Sealed Secrets may overwrite the Secret
    # Commands that a backup runs in a pod, with the rights of its containers.
    "velero.io": "commands in pods",  # pre.hook.backup.velero.io/command: Velero, backup hooks
    "libopenstorage.org": "commands in pods",  # stork.libopenstorage.org/…: Stork, rules before and after snapshots
    # Network and routes.
    "cni.cncf.io": "network",
    "projectcalico.org": "network",
    "cilium.io": "network",
    "ovn.org": "network",
    "metallb.io": "network",
    "metallb.universe.tf": "network",
    "nginx.org": "configuration of a proxy",
    "haproxy.org": "configuration of a proxy",
    "konghq.com": "configuration of a proxy",
    "traefik.io": "configuration of a proxy",
    "nginx.com": "configuration of a proxy",  # nginx.com/…: NGINX Ingress Controller
    "getambassador.io": "configuration of a proxy",
    "projectcontour.io": "configuration of a proxy",
    "tailscale.com": "network",  # tailscale.com/expose: the Tailscale operator
    # What a container runtime does for a pod.
    "crio.io": "container runtime",
    "nri.io": "container runtime",
    "openshift.io": "security constraints",
    # Who owns an object, who may remove it, and which policies pass it by.
    "helm.sh": "ownership by Helm",
    "argoproj.io": "ownership by Argo",
    "fluxcd.io": "ownership by Flux",
    "cattle.io": "ownership by Rancher",
    "kyverno.io": "other policies",
    "gatekeeper.sh": "other policies",
    "karpenter.sh": "removal of nodes",
    "keda.sh": "scaling",  # autoscaling.keda.sh/paused-replicas: KEDA
    "cluster.x-k8s.io": "machines",  # cluster.x-k8s.io/paused: Cluster API
    "operators.coreos.com": "operators and their rights",  # Operator Lifecycle Manager
    "crossplane.io": "resources outside of the cluster",  # crossplane.io/external-name, /paused
    "podberth.dev": "Berth itself",
}
"""Domain of a key's prefix, with all its subdomains → what such keys decide."""
PREFIXES = {
    "io.katacontainers.": "container runtime",
    "io.kubernetes.cri": "container runtime",
    "io.containerd.": "container runtime",
    "run.oci.": "container runtime",
    "dev.gvisor.": "container runtime",
    "aadpodidbinding": "Azure identity",
    "olm.": "operators and their rights",  # olm.targetNamespaces: Operator Lifecycle Manager
    # By which controllers find what they made: who overwrites one has them make pods without end.
    "pod-template-hash": "a controller's own label",
    "pod-template-generation": "a controller's own label",
    "controller-revision-hash": "a controller's own label",
    "controller-uid": "a controller's own label",
    "job-name": "a controller's own label",
}
"""Prefix of keys without a domain → what such keys decide."""
_PREFIXES = tuple(PREFIXES)
ALLOWED = frozenset({"podberth.dev/required-during-execution"})
"""Made for policies to write: see docs/evictor.md."""


def reserved_for(key: str) -> str:
    """Return what a key decides that no policy should; empty for all other keys."""
    key = key.lower()
    domain, slash, _ = key.rpartition("/")
    if not slash:
        if not key.startswith(_PREFIXES):
            return ""
        return next(what for prefix, what in PREFIXES.items() if key.startswith(prefix))
    if key in ALLOWED:
        return ""
    labels = domain.split(".")
    for i in range(len(labels)):
        found = DOMAINS.get(".".join(labels[i:]))
        if found is not None:
            return found
    return ""


class Reserved(Struct, frozen=True):
    """The keys that policies may not write. `known`: those of the lists above are; `more`: the admin's own prefixes."""

    known: bool = True
    more: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    def why(self, key: str, known: str) -> str | None:
        """Return what a key that policies may not write is reserved for. `known` is what `reserved_for` says of it."""
        found = known if self.known else ""
        if not found and self.more and key.lower().startswith(self.more):
            found = "reserved in this cluster"
        return found if found and not key.startswith(self.allowed) else None


RESERVED = Reserved()
