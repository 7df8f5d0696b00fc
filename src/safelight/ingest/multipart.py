"""Finds the one `file` part in a multipart body as its chunks arrive. Copies nothing.

The parser is python-multipart's; this file holds our rules: exactly one file, small headers, and
"complete" means that the closing boundary was seen, not that the connection ended.
"""

from typing import Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from safelight.ingest.contract import InvalidFileType, StreamError

_MAX_PARTS = 16


class FilePart:
    """Feed it chunks; `take` hands out the file's bytes that have arrived since the last call."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise StreamError("Send the image as multipart/form-data with one part named `file`.")
        self.file_name: str | None = None
        self.size = 0
        self._pending: list[memoryview] = []
        self._pending_size = 0
        self._parts = 0
        self._inside_file = False
        self._seen = False
        self._ended = False
        self._header_name = b""
        self._header_value = b""
        self._headers: dict[bytes, bytes] = {}
        try:
            self._parser = MultipartParser(boundary, self._callbacks())
        except FormParserError as error:
            raise StreamError("The multipart boundary is too long.") from error

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise StreamError("The body is not well-formed multipart/form-data.") from error

    def end(self) -> None:
        if not self._ended:
            raise StreamError("The upload broke off before its end.")
        if not self._seen:
            raise InvalidFileType("There is no part named `file` in the upload.")
        if self.size == 0:
            raise InvalidFileType("The file is empty.")

    @property
    def waiting(self) -> int:
        return self._pending_size

    def take(self) -> list[memoryview]:
        taken, self._pending, self._pending_size = self._pending, [], 0
        return taken

    def _callbacks(self) -> Any:
        return {
            "on_part_begin": self._on_part_begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_end": self._on_end,
        }

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise StreamError("The upload has too many parts; send one part named `file`.")
        self._headers = {}
        self._inside_file = False

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        is_file = options.get(b"name") == b"file"
        if (is_file or b"filename" in options) and self._seen:
            raise InvalidFileType("Send one file at a time; this upload holds more than one.")
        if b"filename" in options and not is_file:
            raise InvalidFileType("The file must be in the part named `file`.")
        if is_file:
            self._seen = self._inside_file = True
            self.file_name = _decode(options.get(b"filename", b""))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside_file:
            self._pending.append(memoryview(data)[start:end])
            self._pending_size += end - start
            self.size += end - start

    def _on_end(self) -> None:
        self._ended = True


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # what clients older than the standard send
