"""The few fields of the Kubernetes API that a scheduling decision reads, parsed once.

Next stage: `podberth.state` keeps these objects as columns.
"""
