"""The shell around the evictor's engine: `berth evictor`."""
