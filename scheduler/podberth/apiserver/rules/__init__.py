"""Says what the API server takes of an object, and what a write makes of it. Commands that judge files share it."""
