"""Contract tests: what both API servers, the embedded and the real one, must do alike."""
