"""Devices: resource claims, and extended resources that device classes serve.

`plugin.py` is the plugin. `requests.py` says what a pod asks for, and `results.py` keeps what the allocator found for
each node. `search.py` is the allocator; it uses `pools.py`, `constraints.py`, `capacities.py` and `selecting.py`.
`allocation.py` turns the chosen devices into what is written, and `reservation.py` writes it before the Binding.
"""
