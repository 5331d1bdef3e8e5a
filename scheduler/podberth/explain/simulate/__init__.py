"""Says what would happen: to pods that come, to nodes that go, to a trace."""
