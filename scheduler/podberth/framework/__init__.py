"""Extension points, statuses, profiles and the pipeline that runs plugins over the columns.

Next stage: `podberth.plugins` implements the points, `podberth.engine` runs the pipeline.
"""
