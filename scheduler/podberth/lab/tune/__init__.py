"""Searches for the configuration that is best for goals that people name, with evidence: `berth tune`."""
