"""A small HTTP extender: rules by verb, over real HTTP, in a thread of its own. It notes what it is asked."""

import json
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Object = dict[str, Any]
Rule = Callable[[Object], Any]
"""What is asked → the answer; a number is an HTTP status without one, bytes are sent as they are."""


def _written(answer: Any) -> bytes:
    return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is no error; what a rule raises is shown."""
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)


class ExtenderServer:
    """`with ExtenderServer({"filter": rule}) as extender:` serves at `extender.url`."""

    def __init__(self, rules: Mapping[str, Rule], tls: ssl.SSLContext | None = None) -> None:
        asked: list[tuple[str, Object]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.strip("/")
                asked.append((verb, body))
                answer = rules[verb](body)
                status, text = (answer, b"") if isinstance(answer, int) else (200, _written(answer))
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                """Tests look at `asked` instead."""

        self.asked = asked
        self._server = _Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'' if tls is None else 's'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> "ExtenderServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def verbs(self) -> list[str]:
        """What it was asked, in order."""
        return [verb for verb, _ in self.asked]


def names(asked: Object) -> list[str]:
    """The nodes that a question is about, however they were sent."""
    if asked["NodeNames"] is not None:
        return list(asked["NodeNames"])
    return [node["metadata"]["name"] for node in asked["Nodes"]["items"]]


def keep(*kept: str, failed: Mapping[str, str] | None = None, hopeless: Mapping[str, str] | None = None) -> Rule:
    """A filter that keeps these nodes of those that it is asked about, and answers as it was asked."""

    def answer(asked: Object) -> Object:
        left = [name for name in names(asked) if name in kept]
        found: Object = {"FailedNodes": dict(failed or {}), "FailedAndUnresolvableNodes": dict(hopeless or {})}
        if asked["NodeNames"] is not None:
            return found | {"NodeNames": left}
        return found | {"Nodes": {"items": [n for n in asked["Nodes"]["items"] if n["metadata"]["name"] in left]}}

    return answer


def rate(**scores: int) -> Rule:
    """Scores by node."""
    return lambda asked: [{"Host": name, "Score": scores.get(name, 0)} for name in names(asked)]
