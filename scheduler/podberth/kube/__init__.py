"""The only package that talks to a cluster.

`kubeconfig` finds the API server and the credentials, `client` sends one request at a time, `reflector` turns list and
watch into batches of changes, and `writes` builds the few requests a scheduler makes. Objects are bytes here: what
they decode into is the caller's (model's) business, so this room imports nothing of ours. The next stage of every
change is the controller, which feeds it to the engine.

`lease` is leader election. `reviews` asks the API server who a client is, and what it may read.
"""
