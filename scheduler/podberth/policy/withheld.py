"""Parts of policies that no cluster obeys: writes to reserved keys (`powers`), and policies beyond a bound (`bounds`).

The analysis is asked about policies without the writes, and each of both is a finding.
"""

from collections.abc import Callable, Collection

from msgspec import structs

from podberth.policy import bounds
from podberth.policy.findings import Finding, Report
from podberth.policy.native.budget import fit
from podberth.policy.powers import Reserved
from podberth.policy.spec import Policies, Policy, Rule
from podberth.policy.words import cut

MOST = 20
"""The largest number of findings of this kind: an author of many such keys sees from these what is wrong."""


def report(policies: Policies, ask: Callable[[Policies], Report], reserved: Reserved) -> Report:
    """Return the result of `ask` for the policies as they work here, and the writes that are never made."""
    rest, findings = _without(policies, reserved)
    if not findings:
        return ask(policies)
    emptied = {place for finding in findings for place in finding.rules}
    asked = ask(rest)
    found = [one for one in asked.findings if one.kind != "no-action" or not emptied.issuperset(one.rules)]
    return Report((*findings, *found), asked.steps)


def over(policies: Policies) -> list[Finding]:
    """Return a finding for each policy of one namespace that is left out, as together they cost too much: by everybody,
    or by the API server where it enforces policies by itself.

    Files do not tell how old policies are: names decide.
    """
    prices = {policy.name: bounds.price(policy) for policy in policies.policies}
    ordered = sorted((bounds.Place(price.kind, "", name), price.units) for name, price in prices.items())
    applied = set(bounds.bound(ordered).applied)
    left = [place.name for place, _ in ordered if place not in applied]
    found = [Finding("over-bound", (name,), (), bounds.left_out(prices[name].units)) for name in left[:MOST]]
    fitted = fit(policies)
    beyond = [name for name in fitted.left if name not in left]
    if beyond:
        others = len(beyond) - 1
        more = "" if not others else ", and so is 1 other" if others == 1 else f", and so are {others} others"
        closed = "; as one that rejects does not fit, nothing is let into the namespace" if fitted.closed else ""
        told = f"MetadataPolicy {cut(beyond[0], 80)} is left out where the API server enforces policies by itself{more}"
        found.append(Finding("not-native", tuple(beyond), (), f"{told}: {fitted.left[beyond[0]]}{closed}"))
    return found


def _without(policies: Policies, reserved: Reserved) -> tuple[Policies, list[Finding]]:
    findings: list[Finding] = []
    kept: list[Policy] = []
    for policy in policies.policies:
        rules = []
        for rule in policy.rules:
            asked = {write.key: reserved.why(write.key, write.power) for write in rule.writes}
            gone = {key: why for key, why in asked.items() if why is not None}
            if gone and policy.mode == "enforce":
                findings += [_finding(rule, key, why) for key, why in gone.items()]
            rules.append(_less(rule, gone.keys()) if gone else rule)
        kept.append(structs.replace(policy, rules=tuple(rules)))
    return Policies(kept), findings[:MOST]


def _less(rule: Rule, gone: Collection[str]) -> Rule:
    labels, annotations = (
        {key: value for key, value in writes.items() if key not in gone}
        for writes in (rule.action.labels, rule.action.annotations)
    )
    return structs.replace(rule, action=structs.replace(rule.action, labels=labels, annotations=annotations))


def _finding(rule: Rule, key: str, why: str) -> Finding:
    message = f"{rule} writes {cut(key, 80)}, which is reserved ({why}): not written unless --allow-prefix says so"
    return Finding("reserved-key", (rule.policy,), (rule.place,), message)
