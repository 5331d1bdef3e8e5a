"""The shell around the engine: watches in, bindings, events and conditions out.

This is the last stage of a pod's way; `podberth.cli` starts it.
"""
