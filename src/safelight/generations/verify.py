"""Whether a result is what it begins as, to its end. An image is decoded in the sandbox; of a clip
the container is read. What this says of size and length outranks whatever a provider said."""

import asyncio
from dataclasses import replace

from safelight.errors import Unavailable
from safelight.generations.clips import ClipCut, NotAClip, clip_of
from safelight.generations.fetch import TooLarge
from safelight.generations.media import Recognized
from safelight.infra.scratch import Scratch
from safelight.sandbox.protocol import Bounds, FaultKind, Inspection
from safelight.sandbox.sandbox import Sandbox, SandboxDown, SourceAway

_NOT_WHOLE = frozenset({FaultKind.NOT_AN_IMAGE, FaultKind.BROKEN, FaultKind.UNSUPPORTED})


class NotWhole(Exception):
    """The bytes end too early, or are damaged: another copy of them may be fine."""


class NotFit(Exception):
    """The bytes are all there, and are not to be kept."""


class CannotLook(Unavailable):
    """Results cannot be looked at right now, so they are not kept yet. They will be."""


class Verifier:
    def __init__(self, sandbox: Sandbox, bounds: Bounds) -> None:
        self._sandbox = sandbox
        self._bounds = bounds

    def check_header(self, kind: Recognized) -> None:
        """Before the rest has been fetched."""
        if (kind.width or 0) * (kind.height or 0) > self._bounds.max_pixels:
            raise TooLarge(f"The result has more than {self._bounds.max_pixels} pixels.")

    async def clip(self, file: Scratch, kind: Recognized) -> Recognized:
        try:
            found = await asyncio.to_thread(clip_of, file.file, file.size, kind.content_type)
        except ClipCut as error:
            raise NotWhole(str(error)) from error
        except NotAClip as error:
            raise NotFit(str(error)) from error
        return replace(kind, width=found.width, height=found.height, seconds=found.seconds)

    async def image(self, file: Scratch, kind: Recognized) -> Recognized:
        found = await self._inspect(file.file.fileno())
        if found.fault is not None:
            if found.fault.kind in _NOT_WHOLE:
                raise NotWhole(found.fault.detail or "it cannot be decoded")
            raise NotFit(f"it takes too much to decode ({found.fault.kind})")
        if found.content_type != kind.content_type:
            raise NotFit(f"it begins as {kind.content_type} and is {found.content_type}")
        measured = replace(kind, width=found.width, height=found.height)
        self.check_header(measured)
        return measured

    async def _inspect(self, descriptor: int) -> Inspection:
        try:
            return await self._sandbox.inspect(descriptor, self._bounds)
        except (SandboxDown, SourceAway, TimeoutError) as error:
            raise CannotLook from error
