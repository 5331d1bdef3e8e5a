"""Proxies, TLS end to end, and certificates that rotate."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from podberth.kube.client import Client
from podberth.kube.connection import Connection, Tls
from podberth.kube.errors import Unreachable
from podberth.kube.kubeconfig import connect, goes_direct
from tests.unit.kube.kubeconfigs import Authority, kubeconfig


def test_proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """proxy-url wins over everything; HTTPS_PROXY counts for https hosts unless NO_PROXY exempts them."""
    plain = kubeconfig(tmp_path, cluster={"server": "https://api.test:6443", "insecure-skip-tls-verify": True})
    own = {"server": "https://api.test", "insecure-skip-tls-verify": True, "proxy-url": "http://own:1"}
    special = kubeconfig(tmp_path, name="special", cluster=own)
    assert connect(plain).proxy is None
    monkeypatch.setenv("HTTPS_PROXY", "corp:3128")
    assert connect(plain).proxy == "http://corp:3128"
    monkeypatch.setenv("NO_PROXY", "other,.test")
    assert connect(plain).proxy is None
    assert connect(special).proxy == "http://own:1"


@pytest.mark.parametrize(
    ("host", "no_proxy", "want"),
    [
        ("https://localhost:6443", "", True),
        ("https://127.1.2.3", "", True),
        ("https://[::1]:1", "", True),
        ("https://api.example.com", "", False),
        ("https://api.example.com", "*", True),
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", True),
        ("https://notexample.com", "example.com", False),
        ("https://API.Example.com.", "example.COM", True),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://10.96.0.1", "10.96.0.0/12", True),
        ("https://10.1.0.1", "10.96.0.0/12, 10.1.0.1", True),
        ("https://10.1.0.1:443", "10.1.0.1:443", True),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[fd00::1]", "fd00::1", True),
        ("https://10.1.0.1", "bad/cidr,,", False),
    ],
)
def test_no_proxy_by_gos_rules(host: str, no_proxy: str, want: bool) -> None:
    """The rules of golang.org/x/net/http/httpproxy, which every other component of the cluster follows."""
    assert goes_direct(host, no_proxy) is want


async def serve_tls(
    cert: Path, key: Path, client_ca: Path | None = None
) -> tuple[web.ServerRunner, ssl.SSLContext, int]:
    """A TLS server that says who the client is; its context can be given another certificate later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        peer = request.get_extra_info("peercert")
        name = dict(pair for row in peer["subject"] for pair in row)["commonName"] if peer else "nobody"
        return web.json_response({"name": name}, headers={"Connection": "close"})

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    return runner, context, runner.addresses[0][1]


async def who(client: Client) -> str:
    """Whom the server takes us for."""
    name: str = json.loads(await client.get("/"))["name"]
    return name


async def test_inline_certificates_end_to_end(tmp_path: Path, authority: Authority) -> None:
    """CA and client certificate as inline data: the server knows us; with another CA it is not talked to."""
    server = authority.issue("server")
    cert, key = authority.issue("jane")
    runner, _, port = await serve_tls(*server, client_ca=authority.cert)

    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data(authority.cert)}
    user = {"client-certificate-data": data(cert), "client-key-data": data(key)}
    async with Client(connect(kubeconfig(tmp_path, cluster=cluster, user=user)), qps=-1) as client:
        assert await who(client) == "jane"
    stranger = Authority(tmp_path, "stranger")
    cluster["certificate-authority-data"] = data(stranger.cert)
    async with Client(connect(kubeconfig(tmp_path, cluster=cluster, user=user)), qps=-1) as client:
        with pytest.raises(Unreachable, match="certificate verify failed") as caught:
            await who(client)
        assert not caught.value.sent
    await runner.cleanup()


async def test_tls_server_name_and_skip_verify(tmp_path: Path, authority: Authority) -> None:
    """tls-server-name is what the certificate must be for; insecure-skip-tls-verify asks nothing of it."""
    runner, _, port = await serve_tls(*authority.issue("server"))
    base = {"server": f"https://127.0.0.1:{port}"}
    trusting = {**base, "certificate-authority": str(authority.cert)}
    for cluster, works in (
        ({**trusting, "tls-server-name": "api.test"}, True),
        ({**trusting, "tls-server-name": "other.test"}, False),
        ({**base, "insecure-skip-tls-verify": True}, True),
    ):
        async with Client(connect(kubeconfig(tmp_path, cluster=cluster)), qps=-1) as client:
            if works:
                assert await who(client) == "nobody"
            else:
                with pytest.raises(Unreachable):
                    await who(client)
    await runner.cleanup()


async def test_rotated_ca_and_certificates_are_followed(tmp_path: Path, authority: Authority) -> None:
    """The server moves to a new CA: requests fail until our CA file follows, then work without a restart."""
    new = Authority(tmp_path, "new-ca")
    ca, cert, key = (tmp_path / name for name in ("trusted.crt", "me.crt", "me.key"))

    def present(who_issues: Authority, name: str) -> None:
        issued = who_issues.issue(name)
        cert.write_bytes(issued[0].read_bytes())
        key.write_bytes(issued[1].read_bytes())

    ca.write_bytes(authority.cert.read_bytes())
    present(authority, "first")
    both = tmp_path / "both.crt"
    both.write_bytes(authority.cert.read_bytes() + new.cert.read_bytes())
    runner, context, port = await serve_tls(*authority.issue("server"), client_ca=both)
    now = 0.0
    tls = Tls(ca=str(ca), certificate=str(cert), key=str(key), clock=lambda: now)
    async with Client(Connection(f"https://127.0.0.1:{port}", tls=tls), qps=-1) as client:
        assert await who(client) == "first"
        context.load_cert_chain(*new.issue("server2"))
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await who(client)
        ca.write_bytes(new.cert.read_bytes())
        assert await who(client) == "first"  # the failure made it look at once
        present(new, "second")
        now += 2.0
        assert await who(client) == "second"
        key.write_text("half written")
        now += 2.0
        assert await who(client) == "second"  # what worked stays in use
        ca.unlink()
        now += 2.0
        assert await who(client) == "second"
    await runner.cleanup()
