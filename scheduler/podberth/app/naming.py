"""How the controller names a pod: in the fields of a log line, and in requests."""

from podberth.engine.stimuli import Gone
from podberth.kube.writes import PodRef
from podberth.model.pod import Pod


def about(pod: Pod) -> dict[str, str]:
    """The fields of a log line that say which pod it is about, and whose."""
    return {"pod": pod.key, "profile": pod.scheduler_name}


def ref(pod: Pod | Gone) -> PodRef:
    """The pod for a request: by UID, and at no certain version."""
    return PodRef(pod.namespace, pod.name, pod.uid)
