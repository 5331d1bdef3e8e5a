"""Finds volumes for a pod's claims, and waits until they are bound. Upstream: plugins/volumebinding.

`plugin` is the plugin, `binder` finds volumes for claims on each node, and holds them for a pod that was decided.
"""
