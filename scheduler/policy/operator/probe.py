"""HTTP for kubelets: /livez is about this process, /readyz about whether what it knows is fresh, each in one line."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from scheduler.policy.operator.pulse import Pulse


class Probe:
    """Answers probes from one `Pulse`; being answered at all proves that the main loop turns."""

    def __init__(self, pulse: Pulse, leading: Callable[[], bool]) -> None:
        self.port = 0
        self._pulse = pulse
        self._leading = leading
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 lets the system choose (`port` tells)."""
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port, reuse_address=True).start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Accept nothing more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

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
