"""Questions asked of the same engine without writing anything: explain, and later simulate, replay, shadow.

Next stage: `scheduler.report` draws the answers, `scheduler.cli` prints them.
"""
