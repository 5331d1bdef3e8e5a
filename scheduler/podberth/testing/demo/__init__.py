"""`berth demo`: a guided tour in which the real scheduler places pods on a small cluster, over real HTTP.

`run` prepares the cluster on an embedded API server. `acts` has the steps of the tour, which `play` carries out, by
what the API server says. `witness` records the scheduler's decisions. `terminal` shows it,
`podberth.explain.report.pages` makes a page of it.
"""
