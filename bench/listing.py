"""A bucket of any size that holds no bytes: it lists keys in pages of a thousand and answers for
one, as S3 does, over HTTP. `python -m bench.listing KEYS DATABASE` prints where it is, and says it
is that database's.

Every ten thousandth key is not there, so that there is something to find.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

ETAG = "0" * 64
SIZE = 480_000
PREFIX = "default/"
MISSING_OF = 10_000
_PAGE = 1000
_DATE = "Wed, 15 Nov 2023 00:00:00 GMT"
_MARK = "system/identity"
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
)


def key(number: int) -> str:
    return f"{PREFIX}photo-{number:08}.jpg"


def is_there(number: int) -> bool:
    return number % MISSING_OF != MISSING_OF // 2


class Listing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    keys = 0
    mark = b""

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if "list-type" in query:
            after = query.get("continuation-token") or query.get("start-after", "")
            self._answer(200, self._list(after).encode(), kind="application/xml")
        elif unquote(parts.path).endswith(_MARK):
            self._answer(200, self.mark, etag=ETAG)
        else:
            self._answer(404, b"")

    def do_HEAD(self) -> None:
        """Nobody asks for one that is listed."""
        self._answer(404, b"")

    def _list(self, after: str) -> str:
        begin = int(after[len(PREFIX) + len("photo-") :][:8]) + 1 if after > PREFIX else 1
        page = [number for number in range(begin, begin + _PAGE + 2) if is_there(number)][:_PAGE]
        page = [number for number in page if number <= self.keys]
        more = bool(page) and page[-1] < self.keys
        next_token = (
            f"<NextContinuationToken>{key(page[-1])}</NextContinuationToken>" if more else ""
        )
        return (
            f"{_HEAD}<IsTruncated>{'true' if more else 'false'}</IsTruncated>{next_token}"
            + "".join(
                f"<Contents><Key>{key(number)}</Key><Size>{SIZE}</Size>"
                f'<ETag>"{ETAG}"</ETag><LastModified>2023-11-15T00:00:00.000Z</LastModified>'
                "</Contents>"
                for number in page
            )
            + "</ListBucketResult>"
        )

    def _answer(
        self, status: int, body: bytes, *, etag: str = "", kind: str = "application/octet-stream"
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", _DATE)
        if etag:
            self.send_header("ETag", f'"{etag}"')
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    Listing.keys, Listing.mark = int(sys.argv[1]), sys.argv[2].encode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
