"""The operator: writes into each MetadataPolicy's status what it does, what is wrong with it, and what it would hit.

The way of a change: `watch` (kopf, in a thread of its own) names a namespace, `reconciler` reads its policies, `judge`
computes their conditions, `status` says what has to be written, and which Events. `schedulers` watches Leases, `audit`
counts existing objects, `probe` answers kubelets. The replica that holds the Lease writes. The operator decides about
no object; the admission server does.
"""
