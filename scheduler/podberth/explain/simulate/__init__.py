"""Simulates what would happen: if pods are created, if nodes are drained or added."""
