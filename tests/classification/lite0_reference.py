"""EfficientNet-Lite0 written again, slowly and plainly, with nothing folded: what the graph and its
folded weights are compared with."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[Any]]
Array = NDArray[np.float64]

STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)  # of the sixteen blocks


def logits(tensors: Tensors, pixels: NDArray[np.uint8]) -> Array:
    x = ((pixels.astype(float) - 127) / 128).transpose(2, 0, 1)
    x = relu6(norm(tensors, "_bn0", dense(x, tensors["_conv_stem.weight"], 2)))
    for number, stride in enumerate(STRIDES):
        x = block(tensors, f"_blocks.{number}", x, stride)
    x = relu6(norm(tensors, "_bn1", dense(x, tensors["_conv_head.weight"], 1)))
    pooled = x.mean((1, 2))
    return np.asarray(tensors["_fc.weight"] @ pooled + tensors["_fc.bias"])


def block(tensors: Tensors, name: str, given: Array, stride: int) -> Array:
    x = given
    if f"{name}._expand_conv.weight" in tensors:
        x = relu6(
            norm(tensors, f"{name}._bn0", dense(x, tensors[f"{name}._expand_conv.weight"], 1))
        )
    x = each(x, tensors[f"{name}._depthwise_conv.weight"], stride)
    x = relu6(norm(tensors, f"{name}._bn1", x))
    x = norm(tensors, f"{name}._bn2", dense(x, tensors[f"{name}._project_conv.weight"], 1))
    return x + given if x.shape == given.shape else x


def windows(x: Array, kernel: int, stride: int) -> Array:
    """TensorFlow's SAME padding, then every patch: channel, row, column, kernel, kernel."""
    out = -(-x.shape[1] // stride)
    missing = max((out - 1) * stride + kernel - x.shape[1], 0)
    edges = missing // 2, missing - missing // 2
    padded = np.pad(x, ((0, 0), edges, edges))
    return sliding_window_view(padded, (kernel, kernel), (1, 2))[:, ::stride, ::stride]


def dense(x: Array, kernel: NDArray[Any], stride: int) -> Array:
    patches = windows(x, kernel.shape[2], stride)
    return np.asarray(np.tensordot(kernel.astype(float), patches, ((1, 2, 3), (0, 3, 4))))


def each(x: Array, kernel: NDArray[Any], stride: int) -> Array:
    patches = windows(x, kernel.shape[2], stride)
    return np.asarray(np.einsum("cyxij,cij->cyx", patches, kernel[:, 0].astype(float)))


def norm(tensors: Tensors, name: str, x: Array) -> Array:
    gain, bias, mean, variance = (
        tensors[f"{name}.{part}"].astype(float)[:, None, None]
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    return np.asarray((x - mean) / np.sqrt(variance + 1e-3) * gain + bias)


def relu6(x: Array) -> Array:
    return np.clip(x, 0, 6)
