"""Pod groups: one entry of the queue, one cycle for all of its pods, and Bindings that are posted together.

Next stage: `podberth.engine.engine` begins a group's cycle when its entry comes up.
"""
