"""Finds volumes for a pod's claims, and waits until they are bound. Upstream: plugins/volumebinding.

`plugin` is the plugin, `matching` finds volumes for claims on each node, `assuming` holds them for a pod that was
decided.
"""
