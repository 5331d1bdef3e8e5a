"""Devices: resource claims, and extended resources that device classes serve.

`plugin.py` is the plugin; `questions.py` and `results.py` ask the allocator about nodes and keep its answers;
`search.py` is the allocator, with `pools.py`, `constraints.py`, `capacities.py` and `selecting.py`; `allocation.py`
makes of its choice what is written.
"""
