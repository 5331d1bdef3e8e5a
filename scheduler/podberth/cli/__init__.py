"""The commands of `berth`, a module each: `main` runs one, `commands` lists them."""

SERVICES = frozenset(("run", "evictor", "admission", "operator"))
"""Commands that run until they get a signal to end: each is a function of that name in a module of that name."""
