"""Decisions in plain English. Every number comes from the verdict; nothing is rounded that decides."""

from collections import Counter

from podberth.testing.demo.witness import SeenDecision

SHORT = {
    "node(s) had untolerated taint(s)": "tainted",
    "node(s) were unschedulable": "cordoned",
    "node(s) didn't match Pod's node affinity/selector": "with other labels than it asks for",
    "node(s) didn't match pod affinity rules": "not near the pods it needs",
    "node(s) didn't match pod anti-affinity rules": "too close to pods it must avoid",
    "node(s) didn't satisfy existing pods anti-affinity rules": "claimed by pods that want to be apart from it",
    "Too many pods": "full of pods",
}
PLUGIN_WORDS = {
    "NodeResourcesFit": "free room",
    "NodeResourcesBalancedAllocation": "balance of cpu and memory",
    "InterPodAffinity": "pods nearby",
    "NodeAffinity": "node labels",
    "TaintToleration": "taints",
    "ImageLocality": "image already there",
    "PodTopologySpread": "even spread",
}


def cores(milli: int) -> str:
    """Milli-cores as cores: 500 → 0.5, 2000 → 2."""
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def took(seconds: float) -> str:
    """A short time: 180 µs, 1.2 ms, 3.4 s."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def ruled_out(verdict: SeenDecision) -> str:
    """Return who could not take the pod, by reason; empty when everybody could. Each node counts once, for its
    commonest.
    """
    common = Counter(refusal.reason for refusal in verdict.refusals)
    reasons: dict[str, str] = {}
    for refusal in verdict.refusals:
        before = reasons.get(refusal.node)
        if before is None or common[refusal.reason] > common[before]:
            reasons[refusal.node] = refusal.reason
    counts = Counter(reasons.values())
    return ", ".join(f"{count} {_short(reason)}" for reason, count in counts.most_common())


def why(verdict: SeenDecision) -> list[str]:
    """Two sentences: who could take the pod, and why the winner won."""
    able = len(verdict.candidates)
    out = ruled_out(verdict)
    who = f"{able} of {verdict.nodes} nodes can take it" if able != verdict.nodes else f"All {able} nodes can take it"
    lines = [f"{who}; ruled out: {out}." if out else f"{who}."]
    winner, second = verdict.winner, verdict.runner_up
    name = winner.node
    if second is None:
        lines.append(f"{name} is the only one, so there was nothing to score.")
    elif winner.total == second.total:
        lines.append(
            f"{name} shares the best total of {winner.total} points with {verdict.tied - 1} other"
            f"{'s' if verdict.tied > 2 else ''}; the seed decided."
        )
    else:
        lead = winner.total - second.total
        lines.append(f"{name} wins with {winner.total} points, {lead} ahead of {second.node}: {_differences(verdict)}.")
    return lines


def differences(verdict: SeenDecision) -> list[tuple[str, int]]:
    """By how much the winner leads the runner-up in each plugin, the biggest first; equal ones are left out."""
    second = verdict.runner_up
    if second is None:
        return []
    found = [(name, weighted - second.scores[name][1]) for name, (_, weighted) in verdict.winner.scores.items()]
    return sorted((pair for pair in found if pair[1]), key=lambda pair: -abs(pair[1]))


def plugin_words(name: str) -> str:
    """Return what a scoring plugin looks at."""
    return PLUGIN_WORDS.get(name, name)


def _differences(verdict: SeenDecision) -> str:
    return ", ".join(f"{plugin_words(name)} {points:+d}".replace("-", "−") for name, points in differences(verdict))


def _short(reason: str) -> str:
    if reason.startswith("Insufficient "):
        return f"short of {reason.removeprefix('Insufficient ')}"
    return SHORT.get(reason, reason)
