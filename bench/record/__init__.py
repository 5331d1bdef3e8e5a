"""Pages of docs/ that are records of a run, a module each: `python -m bench.record NAME`."""
