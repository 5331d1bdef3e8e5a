"""The log, the metrics and the health of a process, and the port that serves them."""
