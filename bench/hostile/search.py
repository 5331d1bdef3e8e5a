"""A search that climbs towards cost: Hypothesis varies recipes and is told what the longest turn of each took."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings, target
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bench.hostile.engines import Measured, Town
from bench.hostile.meters import Meter
from bench.hostile.recipe import FOUND, Extra, Key, Operator, Part, Place, Recipe, fitted, scenario

ROUND = 100
"""Recipes of one climb; the next begins anew."""
COUNTS = (0, 0, 0, 1, 10, 100, 1_000, 10_000)
"""How many of a thing: a scale on which a climb is short."""

_parts = st.builds(
    Part,
    place=st.sampled_from(Place),
    count=st.sampled_from(COUNTS[3:]).flatmap(lambda most: st.integers(max(1, most // 10), most)),
    operator=st.sampled_from(Operator),
    key=st.sampled_from(Key),
    values=st.sampled_from((1, 1, 10, 100, 1_000)),
    known=st.booleans(),
    requirements=st.sampled_from((1, 1, 1, 2, 10)),
    topology=st.sampled_from((Key.HOST, Key.ZONE, Key.NEW)),
    namespaces=st.sampled_from((-2, -1, -1, 0, 10, 100)),
)
recipes: SearchStrategy[Recipe] = st.builds(
    Recipe,
    parts=st.lists(_parts, max_size=3).map(tuple),
    extra=st.builds(Extra, **dict.fromkeys(Extra.__struct_fields__, st.sampled_from(COUNTS))),
    placed=st.sampled_from((0, 0, 1, 10)),
    never_fits=st.booleans(),
    priority=st.sampled_from((0, 0, 1_000)),
).map(fitted)


def climb(
    town: Town, examples: int, start: int, meter: Callable[[], Meter], until: float | None = None
) -> list[tuple[Recipe, Measured]]:
    """Recipes and what they cost, dearest first: so many of them, or fewer when the clock (monotonic) says `until`.

    The same `start` gives the same climb, when the meter counts steps.
    """
    tried: dict[Recipe, Measured] = {}

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
    )
    @given(recipes)
    def attempt(recipe: Recipe) -> None:
        if until is not None and time.monotonic() > until:
            return
        taken = tried[recipe] = cost(town, recipe, meter())
        target(taken.turn, label="longest turn")
        target(taken.total, label="in all")

    attempt()
    return sorted(tried.items(), key=lambda one: (-one[1].turn, -one[1].total))


def cost(town: Town, recipe: Recipe, meter: Meter) -> Measured:
    """What a recipe costs in a town, with a few pods of others beside it."""
    return town.measure(scenario(recipe), 0.3, 0.02, meter)


def smaller(town: Town, recipe: Recipe, most: float, meter: Callable[[], Meter]) -> Recipe:
    """The least of a recipe that still takes a turn longer than `most` milliseconds: part by part, number by number."""
    changed = True
    while changed:
        changed = False
        for one in _less(recipe):
            if cost(town, one, meter()).turn > most:
                recipe, changed = one, True
                break
    return recipe


def search(town: Town, minutes: float, most: float, meter: Callable[[], Meter], say: Callable[[str], None]) -> int:
    """Climb again and again, and keep what broke the bound in `found`, one for each kind; how many there were."""
    until = time.monotonic() + 60 * minutes
    kept: set[frozenset[str]] = set()
    while time.monotonic() < until:
        dearest = climb(town, ROUND, random.SystemRandom().randrange(1 << 32), meter, until)
        for recipe, taken in dearest[:5]:
            if taken.turn <= most:
                break
            least = smaller(town, recipe, most, meter)
            kind = _kind(least)
            if kind in kept:
                continue
            kept.add(kind)
            again = cost(town, least, meter())
            FOUND.mkdir(exist_ok=True)
            name = "-".join(sorted(kind)).replace(" ", "-").replace(",", "") or "pod"
            (FOUND / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(least)) + b"\n")
            say(f"{again.turn:,.0f} ms: {name}: {scenario(least).shape}")
    return len(kept)


def _kind(recipe: Recipe) -> frozenset[str]:
    extra = {name for name, count in msgspec.structs.asdict(recipe.extra).items() if count > 1}
    more = {"placed"} if recipe.placed else set()
    return frozenset({str(part.place) for part in recipe.parts} | extra | more)


def _less(recipe: Recipe) -> list[Recipe]:
    """Recipes that are simpler in one way."""
    replace = msgspec.structs.replace
    found = [replace(recipe, parts=recipe.parts[:i] + recipe.parts[i + 1 :]) for i in range(len(recipe.parts))]
    plain = Extra()
    for name, count in msgspec.structs.asdict(recipe.extra).items():
        if count != getattr(plain, name):
            found.append(replace(recipe, extra=replace(recipe.extra, **{name: getattr(plain, name)})))
    if recipe.placed:
        found.append(replace(recipe, placed=0))
    if recipe.never_fits:
        found.append(replace(recipe, never_fits=False))
    if recipe.priority:
        found.append(replace(recipe, priority=0))
    for i, part in enumerate(recipe.parts):
        for name, least in (("requirements", 1), ("values", 1)):
            if getattr(part, name) > least:
                found.append(
                    replace(recipe, parts=(*recipe.parts[:i], replace(part, **{name: least}), *recipe.parts[i + 1 :]))
                )
    return found
