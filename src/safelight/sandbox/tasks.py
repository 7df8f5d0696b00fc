"""What children can do: one line each. They cannot open files, so all they need is loaded here."""

import io

from PIL import Image

from safelight.sandbox.inspecting import inspect
from safelight.sandbox.pictures import set_up
from safelight.sandbox.rendering import render
from safelight.sandbox.server import SandboxTask

TASKS: dict[str, SandboxTask] = {"inspect": inspect, "render": render}

_BOUNDS = {"max_pixels": 10**6, "max_frames": 10, "max_total_pixels": 10**7}


def warm_up() -> None:
    """Decoders load parts of themselves on first use."""
    set_up()
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "AVIF"):
        out = io.BytesIO()
        options = {} if kind == "GIF" else {"exif": exif.tobytes()}
        Image.linear_gradient("L").convert("RGB").save(out, kind, **options)
        inspect(out.getvalue(), _BOUNDS)
        render(out.getvalue(), {"max_side": 16, "square": 8})
