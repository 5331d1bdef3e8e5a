"""The cluster as columns: one row a node, kept up to date event by event.

Next stage: `podberth.framework` asks plugins about these columns.
"""
