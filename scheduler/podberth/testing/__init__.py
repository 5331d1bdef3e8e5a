"""Holds what the demo and the benchmarks run against: the demo's world, and workloads."""
