"""Writes classification/data/lite0.onnx: EfficientNet-Lite0 as a graph without weights.

Run it once, by hand, when the network's shape changes: `python tools/make_lite0_graph.py`. The
result is checked in; it needs the `onnx` package, which nothing at run time does. Input: `image`,
uint8 [N, 224, 224, 3], normalised inside. Outputs: `logits` [N, 1000], `embedding` [N, 1280].
The weights are declared with their shapes and filled in by safelight.classification.lite0.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TARGET = Path(__file__).parents[1] / "src/safelight/classification/data/lite0.onnx"
SIDE, CLASSES, STEM, HEAD = 224, 1000, 32, 1280
# repeats, kernel, stride, expansion, channels out
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


@dataclass
class Graph:
    """Nodes are chained: each adds to what `last` names."""

    last: str = "image"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, kind: str, *more: str, output: str | None = None, **attributes: Any) -> None:
        output = output or f"v{len(self.nodes)}"
        inputs = [self.last, *more]
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        self.last = output

    def constant(self, name: str, value: float) -> str:
        self.tensors.append(numpy_helper.from_array(np.array(value, np.float32), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        tensor = TensorProto(
            name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value="weights")
        self.tensors.append(tensor)
        return name

    def convolution(
        self, name: str, shape: tuple[int, int, int, int], *, stride: int = 1, groups: int = 1
    ) -> None:
        kernel = shape[2]
        self.add(
            "Conv",
            self.weight(f"{name}.w", *shape),
            self.weight(f"{name}.b", shape[0]),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=_same(kernel, stride),
            group=groups,
        )

    def relu6(self) -> None:
        self.add("Clip", "zero", "six")


def _same(kernel: int, stride: int) -> list[int]:
    """TensorFlow's SAME on an even size: the odd pixel goes to the end."""
    total = kernel - stride
    return [total // 2, total // 2, total - total // 2, total - total // 2]


def normalise(graph: Graph) -> None:
    graph.add("Cast", to=TensorProto.FLOAT)
    graph.add("Sub", graph.constant("mean", 127.0))
    graph.add("Div", graph.constant("spread", 128.0))
    graph.add("Transpose", perm=[0, 3, 1, 2])


def block(
    graph: Graph, name: str, inner: int, given: int, made: int, kernel: int, stride: int
) -> None:
    start = graph.last
    if inner != given:
        graph.convolution(f"{name}_expand_conv", (inner, given, 1, 1))
        graph.relu6()
    graph.convolution(
        f"{name}_depthwise_conv", (inner, 1, kernel, kernel), stride=stride, groups=inner
    )
    graph.relu6()
    graph.convolution(f"{name}_project_conv", (made, inner, 1, 1))
    if stride == 1 and given == made:
        graph.add("Add", start)


def body(graph: Graph) -> int:
    channels, number = STEM, 0
    for repeats, kernel, stride, expansion, made in STAGES:
        for repeat in range(repeats):
            inner, step = channels * expansion, stride if repeat == 0 else 1
            block(graph, f"b{number}", inner, channels, made, kernel, step)
            channels, number = made, number + 1
    return channels


def build() -> onnx.ModelProto:
    graph = Graph()
    graph.constant("zero", 0.0)
    graph.constant("six", 6.0)
    normalise(graph)
    graph.convolution("conv_stem", (STEM, 3, 3, 3), stride=2)
    graph.relu6()
    channels = body(graph)
    graph.convolution("conv_head", (HEAD, channels, 1, 1))
    graph.relu6()
    graph.add("GlobalAveragePool")
    graph.add("Flatten", output="embedding")
    weights = graph.weight("fc.w", CLASSES, HEAD), graph.weight("fc.b", CLASSES)
    graph.add("Gemm", *weights, output="logits", transB=1)
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "efficientnet-lite0",
            [helper.make_tensor_value_info("image", TensorProto.UINT8, ["N", SIDE, SIDE, 3])],
            [
                helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES]),
                helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["N", HEAD]),
            ],
            graph.tensors,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="safelight",
    )


if __name__ == "__main__":
    TARGET.write_bytes(build().SerializeToString())
