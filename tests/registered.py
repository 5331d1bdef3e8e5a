"""Which plugins there are, looked up once.

To look through all installed packages takes milliseconds, and tests make thousands of frameworks.
"""

from functools import cache

from podberth.plugins import registry as plugins


@cache
def registry() -> plugins.Registry:
    """As `podberth.plugins.registry` finds them; who installs a plugin meanwhile asks there."""
    return plugins.registry()
