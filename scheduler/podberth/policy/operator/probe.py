"""HTTP for kubelets: /livez is about this process, /readyz about whether what it knows is fresh, each in one line."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from podberth.service.port import READ_BYTES, Limits, Port
from podberth.service.serving import listen

LIMITS = Limits(most=64, of_peer=32, kept=16, ask=10.0, idle=30.0, answer=10.0)
FINISH_SECONDS = 1.0


class Probe:
    """Answers probes: `dead` and `unready` return a problem, `about` what is said beside it.

    Being answered at all proves that the main loop turns.
    """

    def __init__(
        self, dead: Callable[[], str | None], unready: Callable[[], str | None], about: Callable[[], str]
    ) -> None:
        self.port = 0
        self._dead = dead
        self._unready = unready
        self._about = about
        self._listens: Port | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 lets the system choose (`port` tells). Raises ServingError."""
        listening = listen(host, port)
        self._listens = Port("probes", self._handle, LIMITS, read_bufsize=READ_BYTES, lingering_time=0.0)
        self._listens.start(listening, lambda: None)
        self.port = int(listening[0].getsockname()[1])

    async def stop(self) -> None:
        """Accept nothing more."""
        listens, self._listens = self._listens, None
        if listens is not None:
            await listens.stop(FINISH_SECONDS)

    def ports(self) -> list[Port]:
        """Return what it listens on."""
        return [] if self._listens is None else [self._listens]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/livez" | "/healthz":
                problem = self._dead()
            case "/readyz":
                problem = self._unready()
            case _:
                return web.Response(status=404, text="not found: want /livez or /readyz\n")
        return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}; {self._about()}\n")
