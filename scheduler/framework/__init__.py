"""Extension points, statuses, profiles and the pipeline that runs plugins over the columns.

Next stage: `scheduler.plugins` implements the points, `scheduler.engine` runs the pipeline.
"""
