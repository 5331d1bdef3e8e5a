"""A failed connection is described in words that an operator knows."""

import errno
import socket
import ssl
from types import SimpleNamespace

import aiohttp
import pytest

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import Unreachable, described

REFUSED = "Connect call failed ('127.0.0.1', 6443)"
SIGNED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1028)"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(ConnectionRefusedError(errno.ECONNREFUSED, REFUSED), "connection refused", id="one address"),
        pytest.param(
            OSError(f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] {REFUSED}, [Errno 101] {REFUSED}"),
            "connection refused",
            id="several addresses",
        ),
        pytest.param(
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known", id="name"
        ),
        pytest.param(
            ssl.SSLCertVerificationError(1, SIGNED), "certificate verify failed: self-signed certificate", id="TLS"
        ),
        pytest.param(TimeoutError(), "it took too long", id="time"),
        pytest.param(ConnectionResetError(), "the connection ended", id="end"),
        pytest.param(PermissionError(errno.EACCES, "Permission denied", "/x"), "permission denied", id="file"),
        pytest.param(
            aiohttp.ClientConnectorError(
                SimpleNamespace(host="proxy", port=3128, ssl=True),  # type: ignore[arg-type]
                ConnectionRefusedError(errno.ECONNREFUSED, REFUSED),
            ),
            "cannot connect to proxy:3128: connection refused",
            id="aiohttp",
        ),
        pytest.param(ValueError("the key is encrypted"), "the key is encrypted", id="text"),
    ],
)
def test_what_is_said(error: Exception, said: str) -> None:
    """The operating system's own words, the TLS library's, or plain ones: no error number, address pair or class."""
    assert described(error) == said


async def test_nobody_listens() -> None:
    """A request to a port at which nobody listens says so."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        async with Client(Connection(host=f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(Unreachable, match=rf"^cannot connect to 127\.0\.0\.1:{port}: connection refused$"):
                await client.get("/version", tries=1)
