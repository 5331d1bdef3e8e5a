"""Answers questions with the engine of `berth run`, without writing anything: explain, simulate, traces, lint.

Next stage: `podberth.explain.report` draws the answers, `podberth.cli` prints them.
"""
