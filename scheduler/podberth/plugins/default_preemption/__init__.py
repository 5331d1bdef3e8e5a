"""Makes room for a pod by removing pods of lower priority.

Upstream: framework/preemption and plugins/defaultpreemption.

`plugin` is the plugin. `dry_run` has nodes tried by `select_victims`; `dry_run_results` keeps what was found, also
between attempts, and picks one of these nodes, or `candidates` does, where extenders were asked. `importance` and
`budgets` say in which order pods become victims. `whole_groups` is about victims that go with their whole group;
`victims_in_groups` and `sparing` are about victims of a preemptor that is a group.
"""
