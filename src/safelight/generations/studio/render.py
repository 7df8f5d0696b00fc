"""A commission becomes bytes: a still as JPEG, PNG or WebP, a clip as WebM."""

import io

from PIL import Image

from safelight.generations.lifecycle import Kind
from safelight.generations.studio.aurora import NorthernLights
from safelight.generations.studio.bloom import Meadow
from safelight.generations.studio.catalogue import Commission
from safelight.generations.studio.colour import to_bytes
from safelight.generations.studio.finish import finished
from safelight.generations.studio.horizon import Horizon
from safelight.generations.studio.nocturne import Nocturne
from safelight.generations.studio.prompt import read
from safelight.generations.studio.scene import Scene, Stage

_SCENES = {
    "studio/horizon": Horizon,
    "studio/aurora": NorthernLights,
    "studio/nocturne": Nocturne,
    "studio/bloom": Meadow,
}


def render(commission: Commission) -> bytes:
    stage = Stage(commission.width, commission.height, read(commission.prompt), commission.seed)
    scene: Scene = _SCENES[commission.model](stage)
    image = finished(scene.paint(0.0), stage.rng("finish"))
    return _still(commission, Image.fromarray(to_bytes(image)))


def _still(commission: Commission, picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, commission.format, quality=92)
    return buffer.getvalue()
