"""Whether a node has room for a pod, and how good it is by what would be left.

Upstream: plugins/noderesources. `fit` and `balanced_allocation` are the plugins, `arguments` what a configuration says,
`amounts` what nodes have and have given, `strategies` the formulas.
"""
