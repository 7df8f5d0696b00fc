"""EfficientNet-Lite0's weights, read from torch's file without torch.

Guarantees: the file is the one we know, by SHA-256, before any of it is interpreted; of all a
pickle can name, four harmless things are answered and the rest is refused. The weights come out
with each batch normalisation folded into its convolution, named as the graph in data/ names them.
"""

import hashlib
import io
import pickle
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from safelight.classification.preprocess import Array

EPSILON: Final = 1e-3

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_PROTOCOL: Final = 1001
_BLOCK: Final = re.compile(r"_blocks\.(\d+)\._(expand|depthwise|project)_conv\.weight")
_NORM_OF: Final = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}


class UnknownWeights(ValueError):
    """The file is not the one Safelight knows."""


def read_checkpoint(data: bytes, sha256: str) -> dict[str, NDArray[Any]]:
    """Reads torch's older file: five pickles, then each storage as a count and raw numbers."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UnknownWeights("The weights are not the ones Safelight knows: install them again.")
    stream = io.BytesIO(data)
    magic, protocol, _system, tensors, keys = (_Unpickler(stream).load() for _ in range(5))
    if (magic, protocol) != (_MAGIC, _PROTOCOL):
        raise UnknownWeights("The weights are not in the expected file format.")
    offsets = {key: stream.tell() for key in _skip_storages(stream, keys, tensors)}
    return {name: tensor.read(data, offsets) for name, tensor in tensors.items()}


def fold(tensors: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """What the graph declares, by name: `b3_expand_conv.w`, `b3_expand_conv.b`, … `fc.b`."""
    # Copies, since a view would keep the whole file in memory.
    folded = {
        "fc.w": tensors["_fc.weight"].copy(order="C"),
        "fc.b": tensors["_fc.bias"].copy(order="C"),
    }
    for target, weight, norm in _convolutions(tensors):
        scale, shift = _affine(tensors, norm)
        kernel = tensors[weight].astype(np.float64) * scale[:, None, None, None]
        folded[f"{target}.w"] = kernel.astype(np.float32, order="C")
        folded[f"{target}.b"] = shift.astype(np.float32)
    return folded


def _affine(
    tensors: Mapping[str, NDArray[Any]], norm: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A batch normalisation at inference is y = scale * x + shift."""
    gain, bias, mean, variance = (
        tensors[f"{norm}.{part}"].astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain / np.sqrt(variance + EPSILON)
    return scale, bias - mean * scale


def _convolutions(names: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name in the graph, name of the kernel, name of the normalisation behind it."""
    yield "conv_stem", "_conv_stem.weight", "_bn0"
    yield "conv_head", "_conv_head.weight", "_bn1"
    for name in names:
        if found := _BLOCK.fullmatch(name):
            block, role = found.groups()
            yield f"b{block}_{role}_conv", name, f"_blocks.{block}.{_NORM_OF[role]}"


@dataclass(frozen=True, slots=True)
class _Storage:
    key: str
    kind: np.dtype[Any]
    count: int


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    start: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    def read(self, data: bytes, offsets: Mapping[str, int]) -> NDArray[Any]:
        """A view of `data`. Most kernels are stored transposed, so the steps matter."""
        kind = self.storage.kind
        offset = offsets[self.storage.key] + self.start * kind.itemsize
        strides = tuple(step * kind.itemsize for step in self.steps)
        return np.ndarray(self.shape, kind, data, offset, strides)


def _tensor(
    storage: _Storage, start: int, shape: tuple[int, ...], steps: tuple[int, ...], *_unused: Any
) -> _Tensor:
    return _Tensor(storage, start, shape, steps)


def _skip_storages(
    stream: io.BytesIO, keys: list[str], tensors: Mapping[str, _Tensor]
) -> Iterator[str]:
    """Yields each key with the stream at the storage's first number."""
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    for key in keys:
        storage = storages[key]
        count = int.from_bytes(stream.read(8), "little")
        if count != storage.count:
            raise UnknownWeights("The weights end early.")
        yield key
        stream.seek(count * storage.kind.itemsize, io.SEEK_CUR)


class _Unpickler(pickle.Unpickler):
    _known: Final = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch", "FloatStorage"): np.dtype("<f4"),
        ("torch", "LongStorage"): np.dtype("<i8"),
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._known[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in weights.") from None

    def persistent_load(self, pid: Any) -> _Storage:
        _word, kind, key, _device, count, _view = pid
        return _Storage(key, kind, count)
