"""The shell around the evictor's engine: `berth evictor`.

`evictions` has its requests, and reads what earlier evictors wrote down.
"""
