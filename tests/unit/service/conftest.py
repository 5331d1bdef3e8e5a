"""The scripted HTTP server of the kube tests, for what asks an API server here."""

from tests.unit.kube.conftest import server

__all__ = ["server"]
