"""Makes room for a pod by removing pods of lower priority.

Upstream: framework/preemption and plugins/defaultpreemption.

`plugin` is the plugin. `dry_run` tries nodes and keeps what was found, also between attempts; `candidates` picks one of
them. `victims` says in which order pods become victims, and what their budgets allow. `sparing` is about victims of a
preemptor that is a group.
"""
