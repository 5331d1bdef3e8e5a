"""Devices: resource claims, and extended resources that device classes serve.

`plugin.py` is the plugin. `claims.py` finds the claims of a pod. `results.py` says what it asks for, and keeps what the
allocator found for each node of `pools_by_node.py`. `search.py` is the allocator; it uses `requested.py`, `pools.py`
and `selecting.py`. `allocation.py` turns the chosen devices into what is written, and `reservation.py` writes it before
the Binding.
"""
