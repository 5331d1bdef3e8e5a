"""Berth against kube-scheduler's own plugins on generated cases; see README.md."""
