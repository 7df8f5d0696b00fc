"""A remote vision model on loopback that answers what it is told, or misbehaves."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Oracle:
    url: str = ""
    status: int = 200
    body: bytes = b'{"verdict": "pass"}'
    drip_seconds: float = 0.0
    hang_up: bool = False
    asked: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def says(self, **reply: Any) -> None:
        self.body = json.dumps(reply).encode()


@contextmanager
def oracle() -> Iterator[Oracle]:
    told = Oracle()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            told.asked.append((dict(self.headers.items()), data))
            if told.hang_up:
                self.close_connection = True
                return
            self.send_response(told.status)
            self.send_header("content-length", str(len(told.body)))
            self.end_headers()
            for at in range(len(told.body)):
                if told.drip_seconds:
                    time.sleep(told.drip_seconds)
                    self.wfile.write(told.body[at : at + 1])
            if not told.drip_seconds:
                self.wfile.write(told.body)

        def log_message(self, *_: object) -> None:
            return

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                return  # the asker hung up first

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}/judge"
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
