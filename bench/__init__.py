"""Benchmarks on a control plane of their own: schedulers one after the other, on the same API server."""
