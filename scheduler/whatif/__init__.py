"""Answers questions with the engine of `berth run`, without writing anything: explain, simulate, traces, lint.

Next stage: `scheduler.report` draws the answers, `scheduler.cli` prints them.
"""
