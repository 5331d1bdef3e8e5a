"""What every service does alike: `run` starts it, serves its health and metrics, and ends it; `election` has it lead.

The services are `berth run`, `berth evictor`, `berth admission` and `berth operator`; what they do is in other rooms.
"""
