"""Decides again what another scheduler decides, in the state in which each pod was pending.

`record` has the changes of a cluster as they are seen and kept, `shadow` compares, `answer` is what it says.
"""
