"""What Kueue writes to pods, recorded between it and the API server, so that it can be written again without Kueue."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from aiohttp import web

from tests.controlplane.api import PATCH_TYPES, Api, Object
from tests.controlplane.cluster import Cluster
from tests.integration.objects import pods_path
from tests.integration.proxy import Proxy

RECORDED = Path(__file__).with_name("writes.json")
"""Scene → its steps: a pod as the API server stored it, or a patch of Kueue's. `@` stands for the namespace."""
_POD = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+)(?P<part>/status)?$")
_KINDS = {content: kind for kind, content in PATCH_TYPES.items()}
_SERVERS = ("creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid")


class Writes(Proxy):
    """A proxy that keeps the patches of pods which pass. `token`: whose they are, as Go clients show none over HTTP."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        super().__init__(cluster)
        self._token = token
        self.steps: list[tuple[str, Object]] = []
        """(namespace, step), in their order."""

    def creates(self, pod: Object) -> None:
        """Keep a pod as it is after Kueue's webhook."""
        metadata = {key: value for key, value in pod["metadata"].items() if key not in _SERVERS}
        spec = {**pod["spec"], "schedulerName": "berth"}
        self.steps.append((pod["metadata"]["namespace"], {"metadata": metadata, "spec": spec}))

    def record(self, scene: str, namespace: str, nodes: list[Object]) -> None:
        """Write the steps of one scene into the file. `nodes`: arguments of `objects.node`."""
        scenes = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        made = {"nodes": nodes, "steps": [step for of, step in self.steps if of == namespace]}
        scenes[scene] = json.loads(json.dumps(made).replace(namespace, "@"))
        RECORDED.write_text(json.dumps(scenes, indent=1, sort_keys=True) + "\n")

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        # The proxy passes streams line by line, which protobuf does not have.
        accepts = [part for part in request.headers.get("Accept", "").split(",") if "protobuf" not in part]
        accept, token = ",".join(accepts) or "application/json", f"Bearer {self._token}"
        passed = request.clone(headers={**request.headers, "Accept": accept, "Authorization": token})
        answer = await super()._pass(passed)
        found = _POD.match(request.path)
        if request.method == "PATCH" and found and answer.status == 200:
            body = yaml.safe_load(await passed.read())
            for key in _SERVERS:
                body.get("metadata", {}).pop(key, None)
            kind = _KINDS[request.headers["Content-Type"]]
            step = {"pod": found["name"], "part": found["part"] or "", "kind": kind, "patch": body}
            self.steps.append((found["namespace"], step))
        return answer


def write(api: Api, namespace: str, scheduler: str, step: Object) -> None:
    """Do one step in a namespace, the pods of which get this scheduler."""
    step = json.loads(json.dumps(step).replace("@", namespace))
    if "patch" not in step:
        step["spec"]["schedulerName"] = scheduler
        api.create(pods_path(namespace), step)
        return
    more = {"fieldManager": "kueue", "force": "true"} if step["kind"] == "apply" else {}
    api.patch(f"{pods_path(namespace)}/{step['pod']}{step['part']}", step["patch"], step["kind"], **more)
