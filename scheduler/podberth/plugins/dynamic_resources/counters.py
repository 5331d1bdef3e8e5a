"""What devices use of their pool, and what keeps requests off them."""

from collections.abc import Iterable
from typing import Any

from podberth.cache.devices import AllocatedDevices
from podberth.model.devices import Device, DeviceTaint
from podberth.plugins.dynamic_resources.pools import Pool
from podberth.plugins.dynamic_resources.requested import Alternative


def available_counters(pool: Pool, holders: AllocatedDevices) -> dict[tuple[str, str], int]:
    """Return what is left of the counters of a pool, in nano-units; less than nothing where too much was given."""
    available = dict(pool.counters)
    for one in pool.consumers:
        if holders.is_allocated(one.id):
            for counter, amount in uses(one.device):
                if counter in available:
                    available[counter] -= amount
    return available


def uses(device: Device) -> Iterable[tuple[tuple[str, str], int]]:
    """((counter set, counter), nano-units) that a device takes of its pool."""
    for counter_set, counters in device.consumes:
        for counter, amount in counters:
            yield (counter_set, counter), amount


def tolerates_all(alternative: Alternative, taints: Iterable[DeviceTaint]) -> bool:
    """Return whether a request tolerates each of the taints of a device."""
    tolerations: Any = alternative.asked.tolerations
    return all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints)
