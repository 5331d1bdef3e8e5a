"""HTTP for kubelets: /livez is about this process, /readyz about whether what it knows is fresh, each in one line."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from podberth.policy.operator.pulse import Pulse
from podberth.service.port import READ_BYTES, Limits, Port
from podberth.service.serving import listen

LIMITS = Limits(most=64, of_peer=32, kept=16, ask=10.0, idle=30.0, answer=10.0)
FINISH_SECONDS = 1.0


class Probe:
    """Answers probes from one `Pulse`; being answered at all proves that the main loop turns."""

    def __init__(self, pulse: Pulse, leading: Callable[[], bool]) -> None:
        self.port = 0
        self._pulse = pulse
        self._leading = leading
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
                problem = self._pulse.dead()
            case "/readyz":
                problem = self._pulse.unready()
            case _:
                return web.Response(status=404, text="not found: want /livez or /readyz\n")
        age = self._pulse.age()
        said = "never answered" if age is None else f"last answered {age:.1f} s ago"
        role = "leads" if self._leading() else "stands by"
        return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}; watch {said}; {role}\n")
