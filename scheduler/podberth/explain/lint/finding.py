"""The finding of a check, and the profile that it looked at."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from podberth.framework.config import PluginSet, ProfileConfig, convert
from podberth.framework.interface import POINTS, NoArgs, Profile
from podberth.framework.profiles import field_of, without_type


class NodeScore(Struct, frozen=True):
    """A node of an example: what each plugin gives it, weighted, and the sum."""

    node: str
    scores: dict[str, int]
    total: int


class Example(Struct, frozen=True):
    """Two nodes on which the profile chooses another than the one that was meant."""

    scene: str
    intended: str
    chosen: str
    nodes: tuple[NodeScore, ...]


class Finding(Struct, frozen=True, omit_defaults=True):
    """`path`: the field; `what` is there, `why` it matters, and a `remedy`."""

    code: str
    path: str
    what: str
    why: str
    remedy: str
    example: Example | None = field(default=None)


class Checked(Struct, frozen=True):
    """One profile as it is written, and as it was built."""

    config: ProfileConfig
    profile: Profile
    registry: Mapping[str, Any]
    path: str

    def runs(self, name: str, point: str = "") -> bool:
        """Return whether a plugin runs at a point, or at any."""
        points = (point,) if point else POINTS
        return any(plugin.name == name for each in points for plugin in self.profile.plugins(each))

    def arguments(self, name: str) -> tuple[str, Any] | None:
        """Return (path, arguments) that are given for a plugin; None when there are none."""
        for i, plugin in enumerate(self.config.plugin_config):
            if plugin.name == name and name in self.registry:
                args = convert(without_type(plugin.args), getattr(self.registry[name], "Args", NoArgs), "")
                return f"{self.path}.pluginConfig[{i}].args", args
        return None

    def sets(self) -> list[tuple[str, str, PluginSet]]:
        """Return (point, path, what is enabled and disabled there), multiPoint last."""
        points = (*POINTS, "multi_point")
        return [(point, self.path_of(point), getattr(self.config.plugins, point)) for point in points]

    def path_of(self, point: str) -> str:
        """Return the path of a point's plugins."""
        return f"{self.path}.plugins.{field_of(point)}"
