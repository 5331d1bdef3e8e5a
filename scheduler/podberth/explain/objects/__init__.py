"""Reads objects that people give, from a file or a cluster, and makes a world of them."""
