"""Workloads: what a benchmark creates in a cluster, step by step, and when the pods of it were bound.

`podberth.cli.bench` runs them against any cluster; `bench/` runs them on a control plane of its own, against several
schedulers. Nothing in here knows which scheduler it measures.
"""
