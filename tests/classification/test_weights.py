import hashlib
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from safelight.classification import lite0
from safelight.classification.weights import EPSILON, UnknownWeights, fold, read_checkpoint


@pytest.fixture(scope="module")
def tensors() -> dict[str, NDArray[Any]]:
    return read_checkpoint(lite0.weights_path().read_bytes(), lite0.SHA256)


def test_the_checkpoint_holds_the_network(tensors: dict[str, NDArray[Any]]) -> None:
    assert len(tensors) == 296
    assert tensors["_fc.weight"].shape == (1000, 1280)
    assert tensors["_blocks.15._project_conv.weight"].shape == (320, 1152, 1, 1)
    floats = [array for array in tensors.values() if array.dtype == np.float32]
    assert all(np.isfinite(array).all() for array in floats)
    variances = [array for name, array in tensors.items() if name.endswith("running_var")]
    assert all((array >= 0).all() for array in variances)


def test_a_folded_convolution_equals_convolution_then_normalisation(
    tensors: dict[str, NDArray[Any]],
) -> None:
    folded = fold(tensors)
    assert len(folded) == 100
    assert all(array.flags.c_contiguous and array.flags.owndata for array in folded.values())
    patch = np.random.default_rng(7).normal(size=(3, 3, 3))
    kernel, bias = folded["conv_stem.w"].astype(float), folded["conv_stem.b"].astype(float)
    at_once = np.tensordot(kernel, patch, 3) + bias
    first = np.tensordot(tensors["_conv_stem.weight"].astype(float), patch, 3)
    gain, shift, mean, variance = (
        tensors[f"_bn0.{part}"].astype(float)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    then = (first - mean) / np.sqrt(variance + EPSILON) * gain + shift
    assert np.abs(at_once - then).max() < 1e-5


def test_a_file_with_another_hash_is_not_read() -> None:
    with pytest.raises(UnknownWeights):
        read_checkpoint(b"anything", lite0.SHA256)


class _Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return print, ("this runs when unpickled",)


@pytest.mark.parametrize("thing", [_Evil(), np.float32(1), {"a": pickle.Unpickler}])
def test_a_pickle_can_name_nothing_but_tensors(
    thing: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = pickle.dumps(thing, 2)
    with pytest.raises(pickle.UnpicklingError, match="has no place in weights"):
        read_checkpoint(data, hashlib.sha256(data).hexdigest())
    assert capsys.readouterr().out == ""


def test_a_file_that_is_something_else_is_refused() -> None:
    parts: tuple[Any, ...] = (1, 1001, {}, {}, [])
    data = b"".join(pickle.dumps(part, 2) for part in parts)
    with pytest.raises(UnknownWeights, match="format"):
        read_checkpoint(data, hashlib.sha256(data).hexdigest())
