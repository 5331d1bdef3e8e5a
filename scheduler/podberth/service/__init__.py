"""The parts that all services have alike: `run` starts one, serves its health and metrics, and ends it; `election` has
it lead; `reviews` asks who a client is and what it may read; `schedulers` says which schedulers live.

The services are `berth run`, `berth evictor`, `berth admission` and `berth operator`; their work is in other packages.
"""
