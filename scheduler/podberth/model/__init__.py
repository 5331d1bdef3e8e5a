"""The few fields of the Kubernetes API that a scheduling decision reads, parsed once.

Next stage: `podberth.cache` keeps these objects as columns.
"""
