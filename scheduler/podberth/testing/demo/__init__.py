"""`berth demo`: a guided tour in which the real scheduler places pods on a small cluster, over real HTTP.

`run` prepares the cluster (an embedded API server, or a new namespace of a real one). `acts` has the steps of the
tour, which `play` carries out. `mirror` watches what the API server says, `witness` records the scheduler's decisions.
`live`, `picture` and `lines` show it on a terminal, `podberth.explain.report.pages` makes a page of it.
"""
