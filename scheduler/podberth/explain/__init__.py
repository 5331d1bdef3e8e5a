"""Answers questions with the engine of `berth run`, without writing anything.

`objects` reads what people give: files, dumps, a cluster. The files here explain one pod, in this order: `explain` asks
for a decision; `rejections` says why nodes were rejected, in the words of `plugins`; `remedies` makes plans of what may
help (`changes`); `trial` carries each out on the cluster, and its `commands` on the pod as it was `written`. `pending`
does this for all pods that wait, `gangs` for pod groups.

`simulate` says what would happen to pods that come and nodes that go, how many more fit, and plays traces. `lint` finds
mistakes in configurations, `judging` in objects, `shadow` differences from another scheduler. `report` draws the
answers, `podberth.cli` prints them.
"""
