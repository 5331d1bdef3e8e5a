"""The numbers at the end of the story, all counted from decisions that were made and pods that the server has."""

from collections import Counter
from statistics import median

from podberth.testing.demo import words
from podberth.testing.demo.play import Play


def summarise(play: Play, seconds: float) -> list[tuple[str, str, str]]:
    """(number, what it counts, a word of explanation); `seconds`: how long the story took."""
    mirror, verdicts = play.mirror, play.witness.verdicts
    mine = [pod for pod in mirror.pods.values() if pod.scheduler_name in play.setting.profiles]
    bound = [pod for pod in mine if pod.node_name]
    others = sum(bool(pod.node_name) for pod in mirror.pods.values()) - len(bound)
    rows = [(f"{len(bound)} of {len(mine)}", "pods bound", f"{others} of others left alone")]
    if verdicts:
        middle = median(verdict.seconds for verdict in verdicts)
        rows.append((str(len(verdicts)), "decisions", f"over all {verdicts[-1].nodes} nodes each"))
        rows.append((words.took(middle), "a decision", "median, filters and scores"))
        rows.append((f"{1 / middle:,.0f}", "decisions a second", "at that pace, on one core"))
    waits = _waits(play)
    if waits:
        rows.append((words.took(median(waits)), "from created to bound", "median, over HTTP"))
    regret = sum(verdict.regret for verdict in verdicts)
    rows.append((str(regret), "points of regret", "chosen against best, summed"))
    rows.append((str(len(overbooked(play))), "nodes overbooked", "as the API server has it"))
    rows.append((f"{seconds:.1f} s", "the whole story", "pauses for the eye included"))
    return rows


def overbooked(play: Play) -> list[str]:
    """Nodes whose pods ask for more of anything than there is."""
    mirror = play.mirror
    found = []
    for node in mirror.nodes.values():
        asked: Counter[str] = Counter()
        for pod in mirror.on(node.name):
            asked.update(pod.shape.requests)
        if any(amount > node.allocatable.get(name, 0) for name, amount in asked.items()):
            found.append(node.name)
    return found


def _waits(play: Play) -> list[float]:
    """Seconds from the POST of a pod until the watch showed its node, for pods that were bound at the first try."""
    tries = Counter(verdict.pod for verdict in play.witness.verdicts)
    at_once = {step.pod for step in play.recording.steps if step.kind == "bound"}
    at_once -= {step.pod for step in play.recording.steps if step.kind in ("gated", "pending")}
    seen = play.mirror.seen
    return [
        seen[pod.uid] - play.created[key]
        for key, pod in play.mirror.pods.items()
        if key in play.created and pod.uid in seen and tries[key] == 1 and pod.name in at_once
    ]
