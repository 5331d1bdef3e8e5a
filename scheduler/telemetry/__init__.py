"""Logs, and later metrics and health."""
