"""The operator: tells in each MetadataPolicy's status what it does, what is wrong with it, and whom it would hit.

The story of a change: `watch` (kopf, in a thread of its own) names a namespace; `reconciler` reads its policies;
`judge` says what is true of them; `status` what has to be written for that, and which Events. `schedulers` follows
Leases, `audit` counts existing objects, `probe` answers kubelets. One replica writes, by a Lease; nothing here decides
about any object: that is the admission server's.
"""
