"""Makes room for a pod by removing pods of lower priority.

Upstream: framework/preemption and plugins/defaultpreemption.

`plugin` is the plugin. `dry_run` tries nodes a few at a time, by `select_victims` and the rules of `victims`;
`dry_run_results` keeps what was found between attempts, and `candidates` picks one of these nodes. `importance` and
`budgets` say in which order pods become victims, `sparing` which of them can stay. `whole_groups` and
`victims_in_groups` are about victims that go with their whole group; they are tried in a copy (`in_copy`).
"""
