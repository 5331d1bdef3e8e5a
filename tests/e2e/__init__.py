"""Kubernetes' own end-to-end tests, run with Berth as the default scheduler and with kube-scheduler."""
