"""What the log says of a verified decision (`--verify`): nothing if it came out equal, all there is if it did not."""

from typing import Any

import structlog

from scheduler.framework.verify import Answer, Difference
from scheduler.model.pod import Pod

log = structlog.get_logger("verify")


def tell(pod: Pod, difference: Difference | None) -> None:
    """Two lines for a difference: what differs, and what a bug report needs."""
    if difference is None:
        return
    about = {"pod": pod.key, "profile": pod.scheduler_name}
    log.error(
        "a decision differs from the same on a cluster made anew",
        **about,
        differs=list(difference.what),
        decided=_answer(difference.kept),
        anew=_answer(difference.anew),
        nodes=list(difference.nodes),
        fault_in=difference.blame,
        numbers=list(difference.numbers),
        done="the pod goes by the decision made anew; what was kept is dropped",
    )
    log.error("for the report of a decision that differs", **about, dump=difference.dump)


def _answer(answer: Answer) -> dict[str, Any]:
    if answer.message:
        return {"message": answer.message, "plugins": list(answer.plugins)}
    return {"best": list(answer.best), "of": answer.count, "total": answer.total}
