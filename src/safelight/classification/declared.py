"""How the operator's own network wants its images, as SAFELIGHT_ONNX_PREPROCESSING declares it."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from safelight.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETTING: Final = "SAFELIGHT_ONNX_PREPROCESSING"

Three = tuple[float, float, float]


class Declared(BaseModel):
    """A value reaches the network as (pixel * scale - mean) / std; mean and std are in the
    network's order of channels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: Annotated[int, Field(ge=1, le=2048)] = 224
    crop: Annotated[float, Field(gt=0, le=1)] = 0.875
    resample: Literal["bicubic", "bilinear"] = "bilinear"
    layout: Literal["nchw", "nhwc"] = "nchw"
    channels: Literal["rgb", "bgr"] = "rgb"
    scale: Annotated[float, Field(gt=0)] = 1 / 255
    mean: Three = (0.485, 0.456, 0.406)
    std: Three = (0.229, 0.224, 0.225)
    output: Literal["logits", "probabilities"] = "logits"

    @field_validator("std")
    @classmethod
    def _dividable(cls, value: Three) -> Three:
        if 0 in value:
            raise ValueError("0 cannot be divided by")
        return value

    @property
    def shape(self) -> tuple[int, int, int, int]:
        side = self.size
        return (1, 3, side, side) if self.layout == "nchw" else (1, side, side, 3)

    @property
    def leaves_pixels_alone(self) -> bool:
        return (self.scale, self.mean, self.std) == (1, (0, 0, 0), (1, 1, 1))

    def tensor(self, pixels: "NDArray[Any]", kind: str) -> "NDArray[Any]":
        """`pixels` are RGB rows of bytes, `kind` is a numpy type."""
        import numpy as np

        values = pixels if self.channels == "rgb" else pixels[..., ::-1]
        if not self.leaves_pixels_alone:
            scaled = values.astype(np.float32) * np.float32(self.scale)
            values = (scaled - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        if self.layout == "nchw":
            values = values.transpose(2, 0, 1)
        return np.ascontiguousarray(values[None], kind)


PRESETS: Final = {
    "resnet": Declared(),
    "tensorflow": Declared(scale=1 / 127.5, mean=(1, 1, 1), std=(1, 1, 1), layout="nhwc"),
    "raw": Declared(scale=1, mean=(0, 0, 0), std=(1, 1, 1), layout="nhwc"),
}


def parse(text: str) -> Declared:
    """A preset's name, or a JSON object of what differs from `resnet`."""
    if text in PRESETS:
        return PRESETS[text]
    try:
        return Declared.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        reason = f"{where}: {problem['msg']}" if where else problem["msg"]
        known = ", ".join(f"`{name}`" for name in PRESETS)
        raise ConfigurationError(
            f"{SETTING}: {reason}. Write {known} or a JSON object, as docs/classifiers.md shows."
        ) from None
