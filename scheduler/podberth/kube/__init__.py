"""The only package that talks to a cluster.

Objects are bytes here: what they decode into is the caller's business, so this package imports nothing of ours. In the
order in which it is read:

- `kubeconfig` finds an API server and how to log in (`credential_plugins`: with help of the `kubernetes` package); the
  result is a `connection`.
- `client` sends a request and returns the answer of an API server, or the pages of a list. It waits for its turn in
  `flow`, goes over a connection of `http1`, and ends in an exception of `errors` or with bytes.
- `reflector` follows a kind. `listwatch` says what to do next and which objects are known, `cross_check` whether the
  watch has lost any; `objects` are what comes out: changes, in batches.
- `writes` builds and sends what a scheduler writes; `lease` has one leader among replicas. `resources` has the paths of
  all kinds.
- `machine` has the clocks, the chance and the event loop of the process.
"""
