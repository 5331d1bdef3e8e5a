"""Feature gates of kube-scheduler that a profile switches on: `featureGates` in the arguments of the plugin concerned.

Only those that are off in kube-scheduler at its default flags.
"""

FeatureGates = dict[str, bool] | None
"""Gate → whether it is on."""


def is_on(gates: FeatureGates, name: str) -> bool:
    """Return whether a gate is switched on."""
    return (gates or {}).get(name, False)


def errors(gates: FeatureGates, path: str, *known: str) -> list[str]:
    """Error lines for gates that the plugin does not have. `path`: of its arguments."""
    said = f"the only gate is {known[0]}" if len(known) == 1 else f"the gates are {' and '.join(known)}"
    return [f'{path}.featureGates: Invalid value: "{name}": {said}' for name in gates or () if name not in known]
