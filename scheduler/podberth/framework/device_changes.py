"""Small changes of what a pod claims, and of who holds devices, after which the pod may fit.

`claim` is namespace/name, `request` as results call it: `gpu`, or `gpu/small` for an alternative of `firstAvailable`.
`patch` makes the change in the spec of the claim, or of its template: a JSON patch with paths from there on.
"""

from typing import Any

from msgspec import field
from msgspec.structs import replace

from podberth.framework.small_change import SmallChange
from podberth.model.devices import ClaimSpec, DeviceRequest, DeviceToleration
from podberth.model.taints import taint_text


class _ChangeOfRequest(SmallChange, frozen=True):
    """Ask for something else in one request of a claim, or in one alternative of it."""

    claim: str
    request: str

    def changed(self, spec: ClaimSpec) -> ClaimSpec:
        """Return what the claim asks for then."""
        base, _, sub = self.request.partition("/")
        requests = []
        for one in spec.requests:
            if one.name == base and one.exactly is not None:
                one = replace(one, exactly=self.edited(one.exactly))
            elif one.name == base:
                alternatives = [self.edited(each) if each.name == sub else each for each in one.first_available]
                one = replace(one, first_available=tuple(alternatives))
            requests.append(one)
        return replace(spec, requests=tuple(requests))

    def edited(self, asked: DeviceRequest) -> DeviceRequest:
        """Return what the request asks for then."""
        raise NotImplementedError

    @property
    def _where(self) -> str:
        return f"request {self.request} of claim {self.claim}"


class FewerDevices(_ChangeOfRequest, frozen=True):
    """Ask for fewer devices."""

    cost = 1.0
    count: int
    instead_of: int
    patch: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        what = "device" if self.count == 1 else "devices"
        return f"ask for {self.count} {what} instead of {self.instead_of} in {self._where}"

    def edited(self, asked: DeviceRequest) -> DeviceRequest:
        return replace(asked, count=self.count)


class TolerateDeviceTaint(_ChangeOfRequest, frozen=True):
    """Tolerate a taint of devices."""

    cost = 1.0
    key: str
    value: str
    effect: str
    patch: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"tolerate the device taint {taint_text(self.key, self.value, self.effect)} in {self._where}"

    def edited(self, asked: DeviceRequest) -> DeviceRequest:
        added = DeviceToleration(self.key, "Equal", self.value, self.effect)
        return replace(asked, tolerations=(*asked.tolerations, added))


class DropDeviceSelector(_ChangeOfRequest, frozen=True):
    """Do without a selector."""

    cost = 1.5
    selector: str
    patch: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"drop the selector {self.selector} of {self._where}"

    def edited(self, asked: DeviceRequest) -> DeviceRequest:
        return replace(asked, selectors=tuple(one for one in asked.selectors if one != self.selector))


class UseDeviceClass(_ChangeOfRequest, frozen=True):
    """Ask for devices of another class."""

    cost = 1.5
    device_class: str
    instead_of: str
    patch: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"ask for class {self.device_class} instead of {self.instead_of} in {self._where}"

    def edited(self, asked: DeviceRequest) -> DeviceRequest:
        return replace(asked, device_class=self.device_class)


class LessCapacity(_ChangeOfRequest, frozen=True):
    """Do without the capacity that is asked for beyond what a device gives by default."""

    cost = 1.0
    capacity: str
    patch: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"ask for no certain {self.capacity} in {self._where}"

    def edited(self, asked: DeviceRequest) -> DeviceRequest:
        rest = {name: amount for name, amount in (asked.capacity or {}).items() if name != self.capacity}
        return replace(asked, capacity=rest or None)


class DropConstraint(SmallChange, frozen=True):
    """Do without a constraint on what devices share, or differ in."""

    cost = 1.5
    claim: str
    constraint: str
    patch: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"drop the constraint {self.constraint} of claim {self.claim}"

    def changed(self, spec: ClaimSpec) -> ClaimSpec:
        """Return what the claim asks for then."""
        left = tuple(one for one in spec.constraints if str(one) != self.constraint)
        return replace(spec, constraints=left)


class FreeDevices(SmallChange, frozen=True):
    """Have the pods leave that use a claim, so that its devices are free. `pods`: namespace/name of each."""

    cost = 2.0
    claim: str
    pods: list[str]
    devices: list[str]

    def __str__(self) -> str:
        devices = ", ".join(self.devices)
        if not self.pods:
            return f"delete claim {self.claim}, which has {devices} and which no pod uses"
        return f"move {', '.join(self.pods)} away, with claim {self.claim}, which has {devices}"


class RemoveTaintRule(SmallChange, frozen=True):
    """Take an administrator's taint off devices."""

    cost = 2.0
    rule: str
    taint: str

    def __str__(self) -> str:
        return f"delete the DeviceTaintRule {self.rule}, which taints devices {self.taint}"


OnClaim = FewerDevices | TolerateDeviceTaint | DropDeviceSelector | UseDeviceClass | LessCapacity | DropConstraint
"""Changes of a claim of the pod. Its spec can't be changed while it is there: they are made where it comes from."""
OnDevices = FreeDevices | RemoveTaintRule
