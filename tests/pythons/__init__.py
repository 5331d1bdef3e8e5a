"""Berth on each Python that it supports: which of them this machine has, and the fast tests on those."""
