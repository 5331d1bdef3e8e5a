"""Answers questions with the engine of `berth run`, without writing anything.

`objects` reads what people give: files, dumps, a cluster. The files here explain one pod, and find what would free it;
`plugins` explains what each plugin rejected. `gangs` does both for pod groups. `simulate` says what would happen to
pods that come and nodes that go, how many more fit, and plays traces. `lint` finds mistakes in configurations,
`judging` in objects, `shadow` differences from another scheduler. `report` draws the answers, `podberth.cli` prints
them.
"""
