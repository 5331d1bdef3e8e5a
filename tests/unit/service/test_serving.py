"""The serving thread: it answers when the main loop does not, and takes new certificates."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from podberth.service import loop
from podberth.service.certificate import Certificate, CertificateError, self_signed
from podberth.service.pages import Checks, health
from podberth.service.serving import Address, Endpoints, Gate, Serving, ServingError
from tests.certificates import Authority, showing


async def everybody(_authorization: str | None, _path: str, _certificate: bytes | None, _peer: str) -> tuple[int, str]:
    """Let all in."""
    return 200, ""


class Asking:
    """Somebody with a port to ask at, from a thread other than the loop's unless the loop may stall."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, path: str, certificate: Path | None = None) -> tuple[int, str]:
        """Status and text."""
        with contextlib.closing(self.connection(certificate)) as connection:
            connection.request("GET", path)
            found = connection.getresponse()
            return found.status, found.read().decode()

    def connection(self, certificate: Path | None = None) -> http.client.HTTPSConnection:
        """One of its own."""
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=showing(certificate))


@asynccontextmanager
async def serving(gate: Gate, endpoints: Endpoints | None = None) -> AsyncIterator[Asking]:
    """Serve it on some port."""
    served = Serving(Address("127.0.0.1", 0, Certificate()), gate, endpoints or Endpoints())
    served.listen()
    running = asyncio.create_task(served.run())
    try:
        yield Asking(served.port)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_held_loop_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the main loop is held up, /readyz says so, and /livez in a note; one that is dead is not alive any more."""
    monkeypatch.setattr(loop, "HELD_SECONDS", 0.5)
    monkeypatch.setattr(loop, "DEAD_SECONDS", 1e6)
    async with serving(Gate(everybody)) as ask:
        assert (await asyncio.to_thread(ask, "/readyz"))[0] == 200
        # From here on nothing else runs on this loop, until the serving thread has noticed.
        for _ in range(10_000):
            status, text = ask("/readyz")
            if status != 200:
                break
        assert status == 503
        assert "[-]event-loop failed: the event loop has not turned for" in text
        status, text = ask("/livez?verbose")
        assert (status, "[+]event-loop ok\n[!]event-loop: the event loop has not turned for" in text) == (200, True)
        monkeypatch.setattr(loop, "DEAD_SECONDS", 0.5)
        status, text = ask("/livez")
        assert (status, "[-]event-loop failed: the event loop has not turned for" in text) == (503, True)
        async with asyncio.timeout(60):
            while (await asyncio.to_thread(ask, "/livez"))[0] != 200:
                pass


async def test_what_is_asked_where() -> None:
    """Readings and configuration are taken on the main loop's thread; checks are not."""
    threads: dict[str, threading.Thread] = {}

    def note(name: str) -> None:
        threads[name] = threading.current_thread()

    def configuration() -> dict[str, int]:
        note("configuration")
        return {"a": 1}

    def check() -> None:
        note("check")

    async with serving(Gate(everybody), Endpoints(ready={"it": check}, configuration=configuration)) as ask:
        assert await asyncio.to_thread(ask, "/configz") == (200, '{"componentconfig":{"a":1}}')
        assert (await asyncio.to_thread(ask, "/readyz"))[0] == 200
        status, text = await asyncio.to_thread(ask, "/metrics")
        assert (status, "berth_build_info{" in text, "process_cpu_seconds_total" in text) == (200, True, True)
        assert (await asyncio.to_thread(ask, "/other"))[0] == 404
    assert threads["configuration"] is threading.main_thread()
    assert threads["check"] is not threading.main_thread()


async def test_an_address_that_is_taken() -> None:
    """One line with the address and why."""
    one, other = (Serving(Address("127.0.0.1", 0, Certificate()), Gate(everybody), Endpoints()) for _ in range(2))
    one.listen()
    other.port = one.port
    with pytest.raises(ServingError, match=rf"127\.0\.0\.1:{one.port}: can't listen there: address already in use"):
        other.listen()
    one.shut()


@pytest.mark.parametrize(
    ("id", "checks", "verbose", "want"),
    [
        ("all well", {"a": None}, False, (200, "ok")),
        ("all well, in full", {"a": None}, True, (200, "[+]ping ok\n[+]a ok\n[!]n: o\nreadyz check passed\n")),
        (
            "one fails",
            {"a": None, "b": "why"},
            False,
            (503, "[+]ping ok\n[+]a ok\n[-]b failed: why\n[!]n: o\nreadyz check failed\n"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_health(id: str, checks: dict[str, str | None], verbose: bool, want: tuple[int, str]) -> None:
    """In the form of Kubernetes' components, with reasons."""
    asked: Checks = {name: (lambda why=why: why) for name, why in checks.items()}  # type: ignore[misc]
    assert health("/readyz", asked, verbose=verbose, notes={"n": "o"}) == want


def test_certificates_are_followed(tmp_path: Path) -> None:
    """New files are served; a pair that does not fit is refused, and the one before stays."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(pair: tuple[bytes, bytes]) -> None:
        certificate.write_bytes(pair[0])
        key.write_bytes(pair[1])

    first, second = self_signed(), self_signed()
    write(first)
    served = Certificate(str(certificate), str(key))
    assert not served.refresh()
    write(second)
    assert served.refresh()
    key.write_bytes(first[1])
    with pytest.raises(CertificateError, match=r"tls\.crt: expected a certificate in PEM form that fits its key"):
        served.refresh()
    write(second)
    assert not served.refresh()
    key.unlink()
    with pytest.raises(CertificateError, match=r"tls\.key: no such file"):
        served.refresh()


async def test_a_pair_that_is_rotated_while_we_start(tmp_path: Path) -> None:
    """The certificate is new and the key is not there yet: the pair that was read with the options is served."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    for file, text in zip((certificate, key), self_signed(), strict=True):
        file.write_bytes(text)
    served = Serving(Address("127.0.0.1", 0, Certificate(str(certificate), str(key))), Gate(everybody), Endpoints())
    certificate.write_bytes(self_signed()[0])
    served.listen()
    with capture_logs() as logs:
        running = asyncio.create_task(served.run())
        assert (await asyncio.to_thread(Asking(served.port), "/livez"))[0] == 200
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert "a changed file can't be used, the one before stays in use" in [line["event"] for line in logs]


async def by_certificate(
    _authorization: str | None, _path: str, certificate: bytes | None, _peer: str
) -> tuple[int, str]:
    """Let in who shows one, and say its digest."""
    return (200, "") if certificate is not None else (401, "who are you?")


async def test_client_certificates(tmp_path: Path) -> None:
    """Those of the cluster's CAs count, and no others, while the CAs change; open connections do not outlive theirs."""
    blue, green = Authority(tmp_path, "blue"), Authority(tmp_path, "green")
    bundles: asyncio.Queue[bytes] = asyncio.Queue()

    async def authorities(found: Callable[[bytes], None], _kept: Callable[[str], None]) -> None:
        while True:
            found(await bundles.get())

    shown = {"blue": blue.user("ann"), "green": green.user("ben"), "nobody": None}

    async with serving(Gate(by_certificate, authorities)) as ask:

        async def answers() -> dict[str, int]:
            found = {}
            for who, file in shown.items():
                try:
                    found[who] = (await asyncio.to_thread(ask, "/metrics", file))[0]
                except (OSError, http.client.HTTPException):  # TLS itself refuses who is signed by nobody that is known
                    found[who] = 0
            return found

        async def until(wanted: dict[str, int]) -> None:
            async with asyncio.timeout(60):
                while await answers() != wanted:
                    pass

        # Nobody is asked for a certificate as long as no CA is known.
        await until({"blue": 401, "green": 401, "nobody": 401})
        bundles.put_nowait(blue.pem)
        await until({"blue": 200, "green": 0, "nobody": 401})
        kept = ask.connection(shown["blue"])
        assert await asyncio.to_thread(get, kept) == 200
        bundles.put_nowait(blue.pem + green.pem)
        await until({"blue": 200, "green": 200, "nobody": 401})
        bundles.put_nowait(b"nonsense")
        bundles.put_nowait(green.pem)
        await until({"blue": 0, "green": 200, "nobody": 401})
        with pytest.raises((OSError, http.client.HTTPException)):
            await asyncio.to_thread(get, kept)
        kept.close()


def get(connection: http.client.HTTPSConnection) -> int:
    """The status of one more request."""
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_authorities_are_followed(tmp_path: Path) -> None:
    """A file that changes is another context; one that is of no use changes nothing."""
    authority = Authority(tmp_path)
    served = Certificate()
    served.refresh()
    served.follow_authorities(str(authority.file))
    before = served.context
    assert not served.refresh_authorities()
    authority.file.write_bytes(Authority(tmp_path, "other").pem)
    assert served.refresh_authorities()
    assert served.context is not before
    after = served.context
    authority.file.write_text("no certificate")
    with pytest.raises(CertificateError, match=r"clients\.crt: expected certificates of CAs in PEM form"):
        served.refresh_authorities()
    assert served.context is after
    with pytest.raises(CertificateError, match=r"nowhere: no such file"):
        Certificate().follow_authorities("nowhere")


async def test_a_token_that_is_not_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before anybody is asked about it, counted, and told in one line however often it comes."""
    asked: list[str | None] = []

    async def nobody(authorization: str | None, _path: str, _certificate: bytes | None, _peer: str) -> tuple[int, str]:
        asked.append(authorization)
        return 200, ""

    def strange(ask: Asking, times: int) -> list[int]:
        found = []
        for _ in range(times):
            with contextlib.closing(ask.connection()) as connection:
                connection.request("GET", "/metrics", headers={"Authorization": b"Bearer \xff\xc3\xa9"})
                found.append(connection.getresponse().status)
        return found

    async with serving(Gate(nobody)) as ask:
        assert await asyncio.to_thread(strange, ask, 3) == [401] * 3
        assert asked == []
        _, text = await asyncio.to_thread(ask, "/metrics")
    assert 'berth_port_refused_total{port="serving",reason="malformed"} 3' in text
    told = capsys.readouterr()
    assert (told.out + told.err).count("refused") == 1
    assert "Traceback" not in told.out + told.err


def test_what_answers_is_imported_before_the_address_is_taken() -> None:
    """Nobody can take the last descriptor before that."""
    code = """
import sys
from podberth.service import serving
from podberth.service.certificate import Certificate
from podberth.service.serving import ServingError
def taken(*_):
    raise ServingError("taken")
serving.listen = taken
one = serving.Serving(serving.Address("", 0, Certificate()), None, serving.Endpoints())
try:
    one.listen()
except ServingError:
    print(*sorted({"podberth.service.https", "cryptography.x509"} & sys.modules.keys()))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout.split() == ["cryptography.x509", "podberth.service.https"]
