"""CustomResourceDefinitions: a stored one makes its resource served.

Schemas are not looked at: no default is filled in, no field dropped, nothing refused. What a CRD of ours lets in is
tried on real API servers. Upstream: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go.
"""

from __future__ import annotations

from podberth.apiserver.resources import Registry, Resource
from podberth.apiserver.rules.status import JsonObject
from podberth.apiserver.rules.strategy import set_condition
from podberth.apiserver.storage import Store


def resources_of(crd: JsonObject) -> list[Resource]:
    """Return what a definition makes served: one resource for each served version, all in one place."""
    spec = crd["spec"]
    names = spec["names"]
    served = []
    for version in spec.get("versions") or []:
        if not version.get("served"):
            continue
        columns = {
            str(field["jsonPath"]).strip("."): tuple(str(field["jsonPath"]).strip(".").split("."))
            for field in version.get("selectableFields") or []
        }
        served.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec.get("scope") == "Namespaced",
                status="status" in (version.get("subresources") or {}),
                generation=True,
                unconditional=False,
                custom=True,
                list_kind=names.get("listKind", ""),
                fields=columns,
            )
        )
    return served


class Definitions:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._resource = registry.built_in("customresourcedefinitions")
        self._served: dict[str, JsonObject] = {}
        store.on_write[self._resource.collection] = self.refresh

    def refresh(self) -> None:
        """Serve what is defined now, stop serving what isn't, and mark new definitions as established."""
        wanted = {stored.key: stored for stored in self._store.collection(self._resource.collection).ordered()}
        for name in [name for name in self._served if name not in wanted]:
            spec = self._served.pop(name)["spec"]
            self._registry.remove_group_resource(spec["group"], spec["names"]["plural"])
            self._store.drop(f"{spec['names']['plural']}.{spec['group']}")
        for name, stored in wanted.items():
            if self._served.get(name, {}).get("spec") == stored.obj["spec"]:
                continue
            self._registry.remove_group_resource(stored.obj["spec"]["group"], stored.obj["spec"]["names"]["plural"])
            for resource in resources_of(stored.obj):
                self._registry.add(resource)
            self._served[name] = stored.obj
            established = _established(stored.obj)
            if established != stored.obj:
                self._store.update(self._resource, stored, established)


def _established(crd: JsonObject) -> JsonObject:
    status = dict(crd.get("status") or {})
    conditions = status.get("conditions") or []
    for type_, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        conditions = set_condition(conditions, {"type": type_, "status": "True", "reason": reason, "message": message})
    for condition in conditions:
        condition.pop("lastProbeTime", None)
    spec = crd["spec"]
    status["conditions"] = conditions
    status["acceptedNames"] = spec["names"]
    status["storedVersions"] = [version["name"] for version in spec["versions"] if version.get("storage")]
    return {**crd, "status": status}
