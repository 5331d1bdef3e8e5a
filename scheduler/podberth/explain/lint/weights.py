"""Weights that have no effect, or not the one that they seem to have."""

from collections.abc import Iterator

from podberth.explain.lint.finding import Checked, Finding
from podberth.framework.declaration import declaration_of
from podberth.framework.profiles import DEFAULT_MULTI_POINT, field_of

_USUAL = {ref.name: ref.weight for ref in DEFAULT_MULTI_POINT}


def weights(checked: Checked) -> Iterator[Finding]:
    """A weight where nothing is scored, a weight of 0, and one that another overrides."""
    own = {ref.name: ref.weight for ref in checked.config.plugins.score.enabled}
    for point, path, chosen in checked.sets():
        for i, ref in enumerate(chosen.enabled):
            where = f"{path}.enabled[{i}].weight"
            plugin = checked.registry.get(ref.name)
            as_usual = point == "multi_point" and ref.weight == (_USUAL.get(ref.name) or 0)
            if ref.weight is None or plugin is None or as_usual:
                # kube-scheduler writes every plugin's usual weight into a file, 0 where it has none.
                continue
            scores = "score" in declaration_of(plugin).points
            if ref.weight == 0:
                if scores and point in ("score", "multi_point"):
                    yield _zero(ref.name, where)
            elif not scores:
                yield Finding(
                    "weight-without-score",
                    where,
                    f"{ref.name} has the weight {ref.weight} and does not score nodes",
                    "Weights multiply scores. A plugin that only filters is not made stronger by one.",
                    "Remove the weight.",
                )
            elif point not in ("score", "multi_point"):
                yield Finding(
                    "weight-outside-score",
                    where,
                    f"the weight {ref.weight} of {ref.name} is given at {field_of(point)}",
                    f"Only weights at score and multiPoint count; {_effective(checked, ref.name)}.",
                    f"Move it to {checked.path_of('score')}.enabled.",
                )
            elif point == "multi_point" and own.get(ref.name) not in (None, 0, ref.weight):
                yield Finding(
                    "weight-overridden",
                    where,
                    f"{ref.name} has the weight {ref.weight} here and {own[ref.name]} at score",
                    f"The one at score wins: {_effective(checked, ref.name)}.",
                    "Give it once.",
                )


def _zero(name: str, path: str) -> Finding:
    return Finding(
        "weight-zero",
        path,
        f"{name} has the weight 0",
        "A weight of 0 counts as 1, as in kube-scheduler: the plugin goes on scoring.",
        "To keep it from scoring, name it in plugins.score.disabled.",
    )


def _effective(checked: Checked, name: str) -> str:
    return (
        f"the plugin scores with {checked.profile.weights.get(name, 1)}"
        if checked.runs(name, "score")
        else "the plugin does not run at score in this profile"
    )
