"""Clusters that tests run against: what any cluster offers here, and the control plane that tests start themselves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tests.controlplane import build, warden
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for

ADMIN = "admin"
KUBE_SCHEDULER = "system:kube-scheduler"
STRANGER = "stranger"
USERS: Mapping[str, Sequence[str]] = {ADMIN: ("system:masters",), KUBE_SCHEDULER: (), STRANGER: ()}

# What kube-apiserver is told to have pod groups; kube-scheduler has its gate GenericWorkload.
POD_GROUPS = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")
# Admission that no test wants without a kubelet, which makes nodes ready, and a controller manager, which makes service
# accounts.
NEEDS_CONTROLLERS = ("ServiceAccount", "TaintNodesByCondition")
# Bindings and evictions with their bodies (which pod UID, to which node); of all else that it happened.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/binding", "pods/eviction"]}]},
        {"level": "Metadata"},
    ],
}


class Cluster:
    """A reachable API server, its administrator's credentials, and the tools to use on it."""

    owned = False  # whether tests may kill it, and must do a controller manager's work

    def __init__(self, url: str, admin: Mapping[str, str], ca: Path | None, directory: Path) -> None:
        self.url = url
        self.admin = dict(admin)  # as the user entry of a kubeconfig
        self.ca = ca  # may be there only after start()
        self.directory = directory
        self.processes: list[Process] = []
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """The administrator's client."""
        if self._api is None:
            self._api = self._admin_api()
        return self._api

    def trust(self, ca: Path) -> None:
        """From now on the API server's certificate is signed by this CA; `api` is a new client."""
        self.ca = ca
        if self._api is not None:
            self._api.close()
            self._api = None

    def _admin_api(self) -> Api:
        return Api(self.url, token=self.admin["token"], ca=self.ca)

    def api_as(self, token: str) -> Api:
        """A client for somebody else than the administrator; the caller closes it."""
        return Api(self.url, token=token, ca=self.ca)

    def kubeconfig(self, path: Path, token: str | None = None) -> Path:
        """Write a kubeconfig with this token, or with the administrator's credentials."""
        server = {"server": self.url}
        if self.ca is not None:
            server["certificate-authority-data"] = b64encode(self.ca.read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": self.admin if token is None else {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator; unless told not to, a non-zero exit raises with what it said."""
        config = self.directory / "admin.kubeconfig"
        if not config.exists():
            self.kubeconfig(config)
        command = [str(self.tool("kubectl")), *args]
        done = subprocess.run(
            command,
            env={"PATH": os.environ["PATH"], "HOME": str(self.directory), "KUBECONFIG": str(config)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)} gave {done.returncode}: {done.stderr}{done.stdout}")
        return done

    def start_kube_scheduler(
        self,
        config: Object | None = None,
        scheduler_name: str = "default-scheduler",
        qps: float = 5000,
        burst: int = 10000,
        verbosity: int = 1,
        gates: Sequence[str] = (),
    ) -> Process:
        """Start kube-scheduler and wait until its caches are filled. `gates`: feature gates to switch on.

        The config is a KubeSchedulerConfiguration with what the test is about (`profiles`, …); connection and leader
        election are filled in. Metrics are at `<process>.url + "/metrics"`.
        """
        home = Path(tempfile.mkdtemp(prefix="kube-scheduler-", dir=self.directory))
        name = home.name
        kubeconfig = self.kubeconfig(home / "kubeconfig", self.scheduler_token())
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": scheduler_name}],
            **(config or {}),
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": burst},
        }
        (home / "config.yaml").write_text(yaml.safe_dump(document))
        port = free_port()
        scheduler = Process(
            name,
            [
                self.tool("kube-scheduler"),
                f"--config={home / 'config.yaml'}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={home}",
                "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics,/statusz,/flagz",
                f"-v={verbosity}",
                *([f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}"] if gates else []),
            ],
            log=home / "log",
        )
        scheduler.url = f"https://127.0.0.1:{port}"
        scheduler.start()
        self.processes.append(scheduler)
        wait_ready(scheduler, home / "kube-scheduler.crt", token=None)
        return scheduler

    def scheduler_token(self) -> str | None:
        """The token kube-scheduler runs with; None is the administrator."""
        return None

    def service_account_token(self, namespace: str, name: str) -> str:
        """A bearer token for a service account, created when it is not there; bind roles to it as in production."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        try:
            self.api.create(accounts, {"metadata": {"name": name}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        request = self.api.create(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 7200}})
        token: str = request["status"]["token"]
        return token

    def tool(self, name: str) -> Path:
        """Where a binary is: in the assets given, among those built here, or on PATH."""
        for directory in (os.environ.get("KUBEBUILDER_ASSETS"), build.CONTROL_PLANE.place()):
            if directory and (found := Path(directory) / name).is_file():
                return found
        on_path = shutil.which(name)
        if on_path is None:
            raise FileNotFoundError(f"no {name} in KUBEBUILDER_ASSETS, built here or on PATH; try `make controlplane`")
        return Path(on_path)

    def start(self) -> None:
        """Make it reachable; nothing to do for a cluster that is."""

    def stop(self) -> None:
        """End every process started here and remove the directory; data is thrown away, so nobody is asked politely."""
        if self._api is not None:
            self._api.close()
        for process in reversed(self.processes):
            process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class ControlPlane(Cluster):
    """etcd and kube-apiserver on loopback, with handles for faults: `pause`, `resume`, `kill`, `start`.

    There is no kubelet and no controller manager: nothing makes nodes ready, ends pods or empties namespaces. Whoever
    adds both gives `without_admission=()`, so that all admission plugins are on that are on by default.
    """

    owned = True

    def __init__(
        self,
        audit: bool = False,
        users: Mapping[str, Sequence[str]] = USERS,
        apiserver_args: Sequence[str] = (),
        etcd_args: Sequence[str] = (),
        without_admission: Sequence[str] = NEEDS_CONTROLLERS,
    ) -> None:
        directory = Path(tempfile.mkdtemp(prefix="berth-controlplane-"))
        warden.sweep(directory)
        self.tokens = {user: secrets.token_hex(16) for user in users}
        port, self._etcd_url = free_port(), f"http://127.0.0.1:{free_port()}"
        certificate = directory / "apiserver" / "apiserver.crt"  # made by the server, and kept over its restarts
        super().__init__(f"https://127.0.0.1:{port}", {"token": self.tokens[ADMIN]}, certificate, directory)
        self.audit_log = directory / "audit.log"
        self.service_account_key = directory / "service-accounts.key"
        self._write_secrets(users)
        self.etcd = Process("etcd", self._etcd_command(etcd_args), directory / "etcd.log")
        without = [f"--disable-admission-plugins={','.join(without_admission)}"] if without_admission else []
        self.apiserver = Process(
            "kube-apiserver",
            self._apiserver_command(port, audit, [*without, *apiserver_args]),
            directory / "kube-apiserver.log",
        )
        self.apiserver.url = self.url
        self.processes = [self.etcd, self.apiserver]

    @property
    def admin_token(self) -> str:
        """The token of a member of system:masters."""
        return self.tokens[ADMIN]

    def scheduler_token(self) -> str | None:
        return self.tokens.get(KUBE_SCHEDULER)

    def start(self) -> None:
        """Start both and wait until the server is ready and its own namespaces exist."""
        self.etcd.start()
        self.start_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server again where it was, after it was killed, and wait until it is ready."""
        self.apiserver.start()
        wait_ready(self.apiserver, self.ca, self.admin_token)
        wait_for("the namespace default", self._has_default_namespace)

    def restart_apiserver(self) -> None:
        """Kill the API server and start it: same address, certificate and data, empty watch cache."""
        self.apiserver.kill()
        self.start_apiserver()

    def compact(self) -> None:
        """Forget all history in etcd; with `restart_apiserver`, any older resourceVersion then answers 410."""
        revision = self._etcd_call("range", {"key": b64encode(b"none").decode()})["header"]["revision"]
        self._etcd_call("compaction", {"revision": revision, "physical": True})

    def audit_events(self, *words: str) -> Iterator[Object]:
        """What the API server was asked, from the first request on; needs `audit=True`.

        `words`: only entries whose line has each of these, as reading all of a long log takes seconds.
        """
        with self.audit_log.open() as lines:
            for line in lines:
                # The last line may still be under way.
                if line.endswith("\n") and all(word in line for word in words):
                    yield json.loads(line)

    def _etcd_call(self, method: str, body: Object) -> Object:
        request = urllib.request.Request(f"{self._etcd_url}/v3/kv/{method}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            read: Object = json.load(answer)
        return read

    def _has_default_namespace(self) -> bool:
        try:
            self.api.get("/api/v1/namespaces/default")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _write_secrets(self, users: Mapping[str, Sequence[str]]) -> None:
        rows = [
            f"{self.tokens[user]},{user},{user}" + (f',"{",".join(groups)}"' if groups else "")
            for user, groups in users.items()
        ]
        (self.directory / "tokens.csv").write_text("\n".join(rows) + "\n")
        self.service_account_key.write_text(_ec_private_key())
        (self.directory / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))

    def _etcd_command(self, more: Sequence[str]) -> list[str | Path]:
        return [
            self.tool("etcd"),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",  # nobody joins
            "--unsafe-no-fsync",  # the data need not outlive the machine
            f"--quota-backend-bytes={8 << 30}",
            "--log-level=warn",
            *more,
        ]

    def _apiserver_command(self, port: int, audit: bool, more: Sequence[str]) -> list[str | Path]:
        auditing = [f"--audit-policy-file={self.directory / 'audit-policy.yaml'}", f"--audit-log-path={self.audit_log}"]
        return [
            self.tool("kube-apiserver"),
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # the one that is default refuses loopback
            f"--secure-port={port}",
            f"--cert-dir={self.directory / 'apiserver'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={self.service_account_key}",
            f"--service-account-signing-key-file={self.service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Tests measure schedulers, not the server's patience with them.
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            "--delete-collection-workers=8",
            *(auditing if audit else []),
            *more,
        ]


_KEPT: list[socket.socket] = []
"""UDP sockets of the ports that this process has chosen."""


def free_port() -> int:
    """A free loopback port below those that the kernel gives to outgoing connections, so that it stays free.

    Other test processes choose ports, too, and each is used a while after it was chosen. So the UDP port of the same
    number, which no server here wants, is kept until this process ends: a port whose UDP port is taken is not free.
    """
    for port in random.SystemRandom().sample(range(10000, 32000), 100):
        kept = socket.socket(type=socket.SOCK_DGRAM)
        with socket.socket() as probe, contextlib.suppress(OSError):
            kept.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            _KEPT.append(kept)
            return port
        kept.close()
    raise OSError("no free port among 100 tried")


def wait_ready(server: Process, certificate: Path | None, token: str | None, timeout: float = 180) -> None:
    """Wait until a server says that it is ready; DiedError if it ends or does not get there."""

    def ready() -> bool:
        server.check()
        if certificate is not None and not certificate.exists():
            return False
        try:
            api = Api(server.url, token=token, ca=certificate, timeout=5)
        except ssl.SSLError:  # the certificate is being written
            return False
        try:
            return api.text("/readyz") == "ok"
        except (OSError, ApiError):  # not yet listening; listening, not yet ready
            return False
        finally:
            api.close()

    try:
        wait_for(f"{server.name} to be ready", ready, timeout)
    except AssertionError:
        raise server.died(f"was not ready within {timeout:g} s") from None


def _ec_private_key() -> str:
    """A P-256 key in SEC 1 form (RFC 5915): version, a random scalar, the curve; the reader derives the public half."""
    scalar = (secrets.randbits(255) | 1).to_bytes(32, "big")  # below the group's order, and not 0
    der = bytes.fromhex("30310201010420") + scalar + bytes.fromhex("a00a06082a8648ce3d030107")
    return f"-----BEGIN EC PRIVATE KEY-----\n{b64encode(der).decode()}\n-----END EC PRIVATE KEY-----\n"
