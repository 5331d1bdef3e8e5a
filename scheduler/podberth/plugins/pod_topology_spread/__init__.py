"""Spreads pods over the values of a node label. Upstream: plugins/podtopologyspread.

`plugin` is the plugin, `domains` counts pods in each topology domain, `default_selector` says which pods belong
together.
"""
