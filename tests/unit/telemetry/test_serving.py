"""The serving thread: it answers when the main loop does not, and takes new certificates."""

from __future__ import annotations

import asyncio
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler.telemetry import heartbeat
from scheduler.telemetry.certificate import Certificate, CertificateError, self_signed
from scheduler.telemetry.health import Checks, answer
from scheduler.telemetry.serving import Address, Endpoints, Serving, ServingError


async def everybody(_authorization: str | None, _path: str) -> tuple[int, str]:
    """Let all in."""
    return 200, ""


@asynccontextmanager
async def serving(endpoints: Endpoints) -> AsyncIterator[Callable[[str], tuple[int, str]]]:
    """`ask(path)`: (status, text), to be called from a thread other than the loop's unless the loop may stall."""
    served = Serving(Address("127.0.0.1", 0, Certificate()), endpoints)
    served.listen()
    running = asyncio.create_task(served.run())
    context = ssl._create_unverified_context()

    def ask(path: str) -> tuple[int, str]:
        try:
            url = f"https://127.0.0.1:{served.port}{path}"
            with urllib.request.urlopen(url, timeout=60, context=context) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    try:
        yield ask
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_stalled_loop_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the main loop is held up, /livez says so; once it turns again, all is well."""
    monkeypatch.setattr(heartbeat, "STALLED_SECONDS", 0.5)
    async with serving(Endpoints(everybody)) as ask:
        assert (await asyncio.to_thread(ask, "/livez"))[0] == 200
        # From here on nothing else runs on this loop, until the serving thread has noticed.
        for _ in range(10_000):
            status, text = ask("/livez")
            if status != 200:
                break
        assert status == 503
        assert "[-]event-loop failed: the event loop has not turned for" in text
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

    async with serving(Endpoints(everybody, ready={"it": check}, configuration=configuration)) as ask:
        assert await asyncio.to_thread(ask, "/configz") == (200, '{"componentconfig":{"a":1}}')
        assert (await asyncio.to_thread(ask, "/readyz"))[0] == 200
        status, text = await asyncio.to_thread(ask, "/metrics")
        assert (status, "berth_build_info{" in text, "process_cpu_seconds_total" in text) == (200, True, True)
        assert (await asyncio.to_thread(ask, "/other"))[0] == 404
    assert threads["configuration"] is threading.main_thread()
    assert threads["check"] is not threading.main_thread()


async def test_an_address_that_is_taken() -> None:
    """One line with the address and why."""
    one, other = (Serving(Address("127.0.0.1", 0, Certificate()), Endpoints(everybody)) for _ in range(2))
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
    assert answer("/readyz", asked, verbose=verbose, notes={"n": "o"}) == want


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
