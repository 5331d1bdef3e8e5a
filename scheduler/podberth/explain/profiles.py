"""The profiles that a trace is played with when no configuration is given: kube-scheduler's own, and a packed one."""

from podberth.explain.trace import RESOURCES
from podberth.framework.config import PluginConfig, ProfileConfig, SchedulerConfiguration

_STRATEGY = {
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": name, "weight": 1} for name in RESOURCES]}
}
TRACE_PROFILES = SchedulerConfiguration(
    profiles=[
        ProfileConfig(scheduler_name="default"),
        ProfileConfig(scheduler_name="packed", plugin_config=[PluginConfig("NodeResourcesFit", _STRATEGY)]),
    ]
)
"""`packed` fills the nodes that are the fullest, by CPU, memory and GPU alike; all else is as in `default`."""
