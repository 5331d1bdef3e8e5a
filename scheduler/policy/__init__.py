"""MetadataPolicy: who may create what, and which scheduler gets it. This package is pure; `admission` and `operator`
are the parts of it that talk.

Seed: docs/design/metadata-policy.md of Kubernetes 1.2. Start reading at `evaluate`, then `analyse`; docs/policy.md is
the user's side of it.
"""
