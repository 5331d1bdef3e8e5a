"""`berth admission` as processes of their own, behind a stand-in for a Service, and what they are asked for."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import yaml

from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import Cluster, free_port
from tests.controlplane.wait import wait_for
from tests.integration.berth import START
from tests.integration.component import Component
from tests.integration.rights import wait_granted

MANIFESTS = Path(__file__).parents[2] / "manifests"
POLICIES = "/apis/podberth.dev/v1alpha1/namespaces/{}/metadatapolicies"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/zz-berth-admission"
MUTATING, VALIDATING = CONFIGURATIONS.format("mutating"), CONFIGURATIONS.format("validating")
EVERYWHERE = "/apis/podberth.dev/v1alpha1/metadatapolicies"
NAMESPACE, CANARY = "berth", "canary"


class Replica(Component):
    """One admission server on a port of its own."""

    def __init__(self, home: Path, kubeconfig: Path, url: str, *options: str) -> None:
        name = f"admission-{secrets.token_hex(3)}"
        self.port = free_port()
        given = [
            f"--kubeconfig={kubeconfig}",
            f"--namespace={NAMESPACE}",
            "--host=127.0.0.1",
            f"--port={self.port}",
            f"--url={url or f'https://127.0.0.1:{self.port}'}",
            *options,
        ]
        super().__init__(name, home, "admission", *given)

    @property
    def ready(self) -> bool:
        """What its readiness probe says."""
        return self.probe("/readyz") == 200

    def probe(self, path: str) -> int:
        """A kubelet's HTTPS probe (which verifies nothing); 0 when nobody answers."""
        return self.ask(self.port, path, _unverified())[0]

    def metrics(self) -> dict[str, float]:
        """What /metrics says, by name with labels."""
        status, text = self.ask(self.port, "/metrics", _unverified())
        assert status == 200, f"/metrics of {self.name}: {status}\n{self.tail()}"
        lines = text.splitlines()
        rows = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _, value in rows}

    @property
    def policies(self) -> int:
        """How many policies it applies."""
        return int(self.metrics()["berth_admission_policies"])

    @property
    def validates(self) -> bool:
        """Whether it was ever asked about an object that others had changed."""
        return any(name.startswith('berth_admission_reviews_total{endpoint="validate"') for name in self.metrics())


class Service:
    """A stand-in for a Service and its endpoints: new connections go to backends that are ready, old ones stay."""

    def __init__(self) -> None:
        self.backends: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._tasks: set[asyncio.Task[None]] = set()
        self._next = 0
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=512), self._loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Accept nothing more, and let the connections go."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.backends:
                self._next += 1
                port = self.backends[self._next % len(self.backends)]
                there, back = await asyncio.open_connection("127.0.0.1", port)
                try:
                    await asyncio.gather(_pump(reader, back), _pump(there, writer))
                finally:
                    back.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(1 << 16):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Policed:
    """A cluster with our CRD, namespace and rights, where replicas can be started."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.api: Api = cluster.api
        self.home = home
        self.started: list[Replica] = []
        self._kubeconfig: Path | None = None

    def prepare(self) -> None:
        """Apply the manifests; as with kubectl, so that they are tested too."""
        for name in (NAMESPACE, CANARY):
            self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for name in ("crd-metadatapolicies.yaml", "admission-rbac.yaml", "admission.yaml"):
            self.cluster.kubectl("apply", "-f", str(MANIFESTS / name))
        wait_for("the CRD to be served", lambda: served(self.api, EVERYWHERE))
        rule = {"policyPredicate": {}, "policyAction": {"updatedLabels": {"canary": "sings"}}}
        self.api.create(POLICIES.format(CANARY), policy("canary", rule))

    def start(self, *options: str, url: str = "", ready: bool = True) -> Replica:
        """A replica with the rights of the manifest, ready unless told otherwise."""
        if self._kubeconfig is None:
            token = self.cluster.service_account_token(NAMESPACE, "berth-admission")
            wait_granted(self.cluster, token, yaml.safe_load_all((MANIFESTS / "admission-rbac.yaml").read_text()))
            self._kubeconfig = self.cluster.kubeconfig(self.home / "admission.kubeconfig", token)
        replica = Replica(self.home, self._kubeconfig, url, *options)
        self.started.append(replica)
        replica.start()
        if ready:
            self.wait_ready(replica)
        return replica

    def wait_ready(self, replica: Replica) -> None:
        """Return once it is ready."""

        def probed() -> bool:
            replica.check()
            return replica.ready

        wait_for(f"{replica.name} to be ready", probed, START)

    def wait_registered(self) -> None:
        """Return once the API server asks us: what is created in the namespace `canary` gets the label.

        And is validated: it hears of the two webhook configurations by a watch each, in no promised order.
        """
        path = f"/api/v1/namespaces/{CANARY}/configmaps?dryRun=All"

        def asked() -> bool:
            seen = self.api.create(path, {"metadata": {"name": "canary"}})
            return bool(seen["metadata"].get("labels")) and any(one.validates for one in self.replicas)

        wait_for("the API server to ask us", asked, START)

    def enforce(self, namespace: str, *policies: Object) -> None:
        """Create policies and wait until every replica knows them."""
        for body in policies:
            self.api.create(POLICIES.format(namespace), body)
        self.wait_known()

    def wait_known(self) -> None:
        """Return once every replica knows as many policies as there are."""
        count = len(self.api.list(EVERYWHERE))
        for replica in self.replicas:
            wait_for(f"{replica.name} to know {count} policies", partial(_knows, replica, count), START)

    @property
    def replicas(self) -> list[Replica]:
        """Those that run."""
        return [one for one in self.started if one.running]

    def unregister(self) -> None:
        """Remove webhook configurations, Secret and Lease, and all policies: the next test starts afresh."""
        for process in self.started:
            process.kill()
        self.started.clear()
        for path in (
            MUTATING,
            VALIDATING,
            f"/api/v1/namespaces/{NAMESPACE}/secrets/berth-admission-tls",
            f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/berth-admission",
        ):
            with contextlib.suppress(ApiError):
                self.api.delete(path)
        for one in self.api.list(EVERYWHERE):
            if one["metadata"]["namespace"] != CANARY:
                self.api.delete(f"{POLICIES.format(one['metadata']['namespace'])}/{one['metadata']['name']}")

    def logs(self) -> Iterator[tuple[str, str]]:
        """(title, end of the log) of each replica."""
        for process in self.started:
            yield f"end of the log of {process.name}", process.tail(25)


def served(api: Api, path: str) -> bool:
    """Whether this can be listed."""
    try:
        api.get(path)
    except ApiError as error:
        assert error.status in (404, 429, 503)
        return False
    return True


def policy(name: str, *rules: Object) -> Object:
    """A MetadataPolicy."""
    head = {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy"}
    return {**head, "metadata": {"name": name}, "spec": {"rules": list(rules)}}


def rules(text: str) -> list[Object]:
    """Rules from YAML, as people write them."""
    found: list[Object] = yaml.safe_load(text)
    return found


def pod(name: str, **resources: Object) -> Object:
    """A pod of one container with these requests and limits."""
    container = {"name": "main", "image": "registry.example/app", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def deployment(name: str) -> Object:
    """A Deployment that nobody rolls out here."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def paths(team: str, group: str) -> dict[str, tuple[str, Object]]:
    """Collections of the kinds that are tried, and an object for each."""

    def widget(version: str) -> tuple[str, Object]:
        body = {"apiVersion": f"{group}/{version}", "kind": "Widget", "metadata": {"name": "w"}, "size": 3}
        return f"/apis/{group}/{version}/namespaces/{team}/widgets", body

    return {
        "pods": (f"/api/v1/namespaces/{team}/pods", pod("p")),
        "deployments": (f"/apis/apps/v1/namespaces/{team}/deployments", deployment("d")),
        "configmaps": (f"/api/v1/namespaces/{team}/configmaps", {"metadata": {"name": "c"}, "data": {"a": "b"}}),
        "widgets": widget("v1"),
        "widgets v2": widget("v2"),
    }


@contextlib.contextmanager
def load(policed: Policed, team: str, check: Callable[[Object], bool]) -> Iterator[list[int]]:
    """Creates from four threads meanwhile; every one must succeed and pass the check. Yields a live count."""
    stop, count, wrong = threading.Event(), [0], list[str]()
    path = f"/api/v1/namespaces/{team}/configmaps"

    def work() -> None:
        while not stop.is_set() and not wrong:
            try:
                made = policed.api.create(path, {"metadata": {"generateName": "load-"}})
            except (ApiError, OSError) as error:
                wrong.append(str(error))
                return
            if not check(made):
                wrong.append(f"unpoliced: {made['metadata']}")
            count[0] += 1
            time.sleep(0.01)  # a load, not a flood

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield count
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert wrong == []


def one_ca(data: Object) -> bool:
    """Whether the bundle of a Secret has come down to one CA."""
    return base64.b64decode(data["ca.crt"]).count(b"BEGIN CERTIFICATE") == 1


def _knows(replica: Replica, count: int) -> bool:
    return replica.policies == count
