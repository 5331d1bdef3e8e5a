"""MetadataPolicy: which objects may be created, and which scheduler gets a pod. This package is pure; only `admission`
and `operator` use the network.

Seed: docs/design/metadata-policy.md of Kubernetes 1.2. Start reading at `evaluate`, then `analyse`; docs/policy.md is
the user's side of it.
"""
