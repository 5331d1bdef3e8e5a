"""Policies on a real API server without a webhook, held against the evaluator: `python -m tests.native --seeds 0-199`."""
