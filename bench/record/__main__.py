"""Writes a recorded page anew: `python -m bench.record NAME` (or with `--print`, to standard output)."""

import argparse
from importlib import import_module

from bench.record.transcript import write

NAMES = ("claims", "eviction", "install", "policies", "run", "story")

if __name__ == "__main__":
    options = argparse.ArgumentParser(prog="python -m bench.record", description=__doc__)
    options.add_argument("name", choices=NAMES, help="which page")
    options.add_argument("--print", action="store_true", help="to standard output instead")
    chosen = options.parse_args()
    write(chosen.name, import_module(f"bench.record.{chosen.name}").RECORDING, to_page=not chosen.print)
