"""A network small enough to write down: it tells fruit apart by colour."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from safelight.classification.declared import Declared
from safelight.classification.labels import CLASSES

# Class index and the colour it stands for.
FRUIT = {
    "GRANNY SMITH": (948, (90, 170, 40)),
    "STRAWBERRY": (949, (210, 20, 40)),
    "ORANGE": (950, (250, 150, 20)),
    "LEMON": (951, (250, 230, 60)),
    "BANANA": (954, (240, 210, 130)),
    "SEASHORE": (978, (40, 20, 210)),  # strawberry with red and blue exchanged
}
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8}


def write(
    path: Path,
    declared: Declared,
    *,
    kind: str = "float32",
    background: bool = False,
    classes: int = CLASSES,
) -> Path:
    """The class whose colour, as declared, is nearest to the mean of what comes in."""
    steps: list[tuple[str, dict[str, Any], list[str]]] = [("Cast", {"to": TensorProto.FLOAT}, [])]
    if declared.layout == "nhwc":
        steps.append(("Transpose", {"perm": [0, 3, 1, 2]}, []))
    steps += [("GlobalAveragePool", {}, []), ("Flatten", {}, []), ("Gemm", {}, ["w", "b"])]
    if declared.output == "probabilities":
        steps.append(("Softmax", {"axis": 1}, []))
    nodes, last = [], "pixels"
    for number, (operation, attributes, more) in enumerate(steps):
        out = "scores" if number == len(steps) - 1 else f"v{number}"
        nodes.append(helper.make_node(operation, [last, *more], [out], **attributes))
        last = out
    weights, bias = _nearest(declared, classes, offset=int(background))
    graph = helper.make_graph(
        nodes,
        "fruit",
        [helper.make_tensor_value_info("pixels", TYPES[kind], list(declared.shape))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, bias.size])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def _nearest(declared: Declared, classes: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """2·c·x − |c|² is greatest for the c nearest to x."""
    weights = np.zeros((3, classes + offset), np.float32)
    bias = np.full(classes + offset, -1e6, np.float32)
    for index, colour in FRUIT.values():
        pixel = np.array(colour, np.uint8).reshape(1, 1, 3)
        centre = declared.tensor(pixel, "float32").reshape(3)
        if index < classes:
            weights[:, index + offset] = 2 * centre
            bias[index + offset] = -(centre**2).sum()
    return weights, bias
