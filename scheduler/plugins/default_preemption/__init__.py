"""Makes room for a pod by removing pods of lower priority.

Upstream: framework/preemption and plugins/defaultpreemption.

`plugin` is the plugin, `trials` finds where preemption helps and with whom, by the rules of `rows_on_trial`,
`candidates` picks one of these nodes, `importance` and `budgets` say in which order victims go, `findings` is what is
kept between attempts.
"""
