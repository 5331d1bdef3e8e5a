"""Pages of docs/evidence/ that are records of a run, a module each: `python -m bench.record NAME`."""
