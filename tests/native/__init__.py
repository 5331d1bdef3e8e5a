"""Policies without a webhook, on a real API server, against the evaluator: `python -m tests.native --seeds 0-199`."""
