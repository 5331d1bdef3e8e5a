"""Keys by which an object gets rights, sidecars or exceptions from others: policies may not write them.

A policy's author need not be allowed to create the object that the policy changes. A ServiceAccount that a cluster
admin creates would get the cloud role that the policy names, and a pod the privileged container that an injector adds.
Kubernetes' own domains are refused when a policy is read (`keys.is_reserved`); the keys here are left out when the
policy's writes are made, so that its other rules still apply. The admin lifts a reservation by `--allow-prefix`, adds
one by `--reserve-prefix`, and switches this list off by `--no-reserve-known`.
"""

from msgspec import Struct

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


def of(key: str) -> str:
    """Return the power that a key has and no policy should give; empty for all other keys."""
    key = key.lower()
    domain, slash, _ = key.rpartition("/")
    if not slash:
        if not key.startswith(_PREFIXES):
            return ""
        return next(power for prefix, power in PREFIXES.items() if key.startswith(prefix))
    if key in ALLOWED:
        return ""
    labels = domain.split(".")
    for i in range(len(labels)):
        found = DOMAINS.get(".".join(labels[i:]))
        if found is not None:
            return found
    return ""


class Reserved(Struct, frozen=True):
    """The keys that policies may not write. `known`: those of this module are reserved; `more`: the admin's own."""

    known: bool = True
    more: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    def why(self, key: str, power: str) -> str | None:
        """Return the power of a key that policies may not write. `power` is what `of` returns for the key."""
        found = power if self.known else ""
        if not found and self.more and key.lower().startswith(self.more):
            found = "reserved in this cluster"
        return found if found and not key.startswith(self.allowed) else None
