"""Promises kept after scheduling: which placed pods no longer fit their node, and when one of them may be evicted.

Stimuli in, instructions out, the clock handed in, as the scheduler's own engine. Next stage: `evictor`.
"""
