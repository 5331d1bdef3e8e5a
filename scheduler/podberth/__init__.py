"""Berth, a second scheduler for Kubernetes."""

__version__ = "0.1.0"
