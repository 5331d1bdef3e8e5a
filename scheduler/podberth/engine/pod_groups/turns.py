"""The turns of a pod group: generators that stop wherever other pods may be tried.

What a generator of this kind needs to know when it goes on is in the attempt: the time, and what extenders have said.
"""

from collections.abc import Generator
from typing import TypeVar

from podberth.engine.extender_calls import ExtenderCall
from podberth.framework.extenders import NodesAnswer, VictimsAnswer

Found = TypeVar("Found")
Turns = Generator[None, None, Found]
Answer = tuple[ExtenderCall, NodesAnswer | VictimsAnswer | str]
"""A question to extenders, and what they say; a text: what has failed."""
A_TRY = 250
"""Steps that a try counts for, of one pod with those before it assumed. A step is about a microsecond of one core."""
MOST_STEPS = 16_000_000
"""What one search may take: for victims of a group, for room that is kept for it, or for its domain."""
