"""A real Kubernetes control plane for tests: etcd, kube-apiserver, kube-scheduler and kubectl.

`build` makes the binaries once per machine, `cluster` starts them, `api` is the test's own client,
`existing` wraps a cluster that somebody already has.
"""
