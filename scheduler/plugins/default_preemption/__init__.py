"""Makes room for a pod by removing pods of lower priority.

Upstream: framework/preemption and plugins/defaultpreemption.

`plugin` is the plugin, `select_victims` finds the nodes where preemption helps and their victims by the rules of
`victims`, `dry_run` keeps the results from attempt to attempt,
`candidates` picks one of these nodes, `importance` and `budgets` say in which order pods become victims, and
`dry_run_results` keeps results between attempts.
"""
