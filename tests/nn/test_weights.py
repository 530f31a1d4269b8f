"""Weights survive a file of safetensors, with PyTorch's in both directions."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncgrad import nn
from asyncgrad.errors import ArgumentError, ArgumentTypeError
from tests.support.processes import run_python

pytest.importorskip("safetensors")


def model(outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs))


def test_weights_come_back_from_a_file_with_their_bits_and_dtypes(tmp_path: Path) -> None:
    state: dict[str, Any] = {
        name: np.arange(6).reshape(2, 3).astype(name)
        for name in ("float16", "float32", "float64", "complex64", "int8", "int64", "uint32", "bool")
    }
    state |= {"transposed": np.arange(6.0).reshape(2, 3).T, "scalar": np.array(1.5), "empty": np.zeros((0, 3))}
    state["big endian"] = np.arange(3.0).astype(">f8")
    nn.save_safetensors(state, tmp_path / "weights", {"made by": "a test"})
    found = nn.load_safetensors(tmp_path / "weights")

    assert set(found) == set(state)
    for name, array in state.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found[name].numpy(), array)


def test_a_model_is_saved_and_loaded_by_its_state_dict(tmp_path: Path) -> None:
    first, second = model(), model()
    nn.save_safetensors(first, tmp_path / "model.safetensors")
    second.load_state_dict(nn.load_safetensors(tmp_path / "model.safetensors"))

    np.testing.assert_array_equal(first(np.ones(3)).numpy(), second(np.ones(3)).numpy())


def test_files_go_to_pytorch_and_come_from_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytorch_files = pytest.importorskip("safetensors.torch")
    ours = model()
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    nn.save_safetensors(ours, tmp_path / "ours")
    theirs.load_state_dict(pytorch_files.load_file(tmp_path / "ours"))
    np.testing.assert_allclose(theirs(torch.ones(3).double()).detach().numpy(), ours(np.ones(3)).numpy())

    half = theirs.to(torch.bfloat16)
    pytorch_files.save_file(half.state_dict(), tmp_path / "theirs")
    found = nn.load_safetensors(tmp_path / "theirs")
    assert found["0.weight"].dtype == np.float32
    np.testing.assert_array_equal(found["0.weight"].numpy(), half.state_dict()["0.weight"].float().numpy())


def test_a_file_stays_whole_if_writing_another_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.numpy

    path = tmp_path / "model"
    nn.save_safetensors({"w": np.ones(2)}, path)
    before = path.read_bytes()

    def fail(arrays: Any, name: Path, metadata: Any) -> None:
        name.write_bytes(b"half of it")
        raise OSError("the disk is full")

    monkeypatch.setattr(safetensors.numpy, "save_file", fail)
    with pytest.raises(OSError, match="the disk is full"):
        nn.save_safetensors({"w": np.zeros(2)}, path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of Linux and macOS")
@pytest.mark.parametrize("mode", [0o644, 0o664, 0o600])
def test_a_file_keeps_its_permissions_when_weights_replace_it(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "model"
    path.touch()
    path.chmod(mode)
    nn.save_safetensors({"w": np.ones(2)}, path)

    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of Linux and macOS")
def test_a_new_file_of_weights_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    nn.save_safetensors({"w": np.ones(2)}, tmp_path / "model")
    (tmp_path / "other").touch()

    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_weights_of_another_model_name_the_path_and_both_shapes(tmp_path: Path) -> None:
    nn.save_safetensors(model(5), tmp_path / "model")

    with pytest.raises(ArgumentError, match=re.escape("2.weight has shape (2, 4), but in the state dict (5, 4)")):
        model().load_state_dict(nn.load_safetensors(tmp_path / "model"))


def test_what_cannot_be_saved_or_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match="w must be a tensor or an array, not float"):
        nn.save_safetensors({"w": 1.0}, tmp_path / "model")
    with pytest.raises(ArgumentError, match="w has the dtype complex128, and files of safetensors have bool"):
        nn.save_safetensors({"w": np.ones(2, complex)}, tmp_path / "model")
    with pytest.raises(ArgumentTypeError, match="the tensors in a file have names, and int 1 is none"):
        nn.save_safetensors({1: np.ones(2)}, tmp_path / "model")  # type: ignore[dict-item]
    with pytest.raises(ArgumentTypeError, match="takes a module or a dict of tensors, not list"):
        nn.save_safetensors([], tmp_path / "model")  # type: ignore[arg-type]
    (tmp_path / "text").write_text("no weights at all")
    with pytest.raises(ArgumentError, match="text is no file of safetensors, or is damaged"):
        nn.load_safetensors(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        nn.load_safetensors(tmp_path / "nothing")


def test_an_error_names_the_extra_where_safetensors_is_missing() -> None:
    program = (
        "import sys; sys.modules['safetensors'] = None; from asyncgrad import nn\n"
        "try: nn.load_safetensors('x')\nexcept ImportError as error: print(error)"
    )
    assert "pip install 'asyncgrad[safetensors]'" in run_python(program)
