"""Answers about pod groups: why one does not start, what would start it, and how many more would."""
