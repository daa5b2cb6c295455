"""The reader of kernel declarations, and that the host library was built from them."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from kernels.cuda import source
from kernels.cuda.host import HostKernels
from kernels.cuda.kernel_set import LaunchError


def test_every_declaration_is_read() -> None:
    declared = sum(len(re.findall(r"^(?:TYPED_)?KERNEL\(", unit.text, re.M)) for unit in source.units().values())
    assert len(source.signatures()) == declared > 80


def test_a_signature_has_names_and_types() -> None:
    signature = source.signatures()["matvec_q4_k"]
    assert signature.names == ("w", "x", "facts", "bias", "residual", "y", "rows", "cols")
    assert signature.types == (ctypes.c_void_p,) * 6 + (ctypes.c_int,) * 2
    assert (signature.unit.name, signature.max_threads) == ("matvec_q4_k", 128)
    assert source.signatures()["combine_experts"].types[0] is ctypes.c_void_p


def test_wrong_arguments_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="add takes a, b, y, n; got 2"):
        HostKernels().launch("add", (1, 1, 1), (256, 1, 1), (0, 0))
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        HostKernels().launch("add", (1, 1, 1), (256, 1, 1), (0, 0, 0, 1.5))


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [
        ((0, 1, 1), (1, 1, 1), 0),
        ((1, 65536, 1), (1, 1, 1), 0),
        ((1, 1, 1), (257, 1, 1), 0),
        ((1, 1, 1), (1, 1, 1), 1 << 20),
    ],
)
def test_launches_that_a_gpu_refuses_are_refused(grid: tuple[int, ...], block: tuple[int, ...], shared: int) -> None:
    x = np.zeros(1, np.float32)
    with pytest.raises(LaunchError, match="add: invalid launch"):
        HostKernels().launch("add", grid, block, (x.ctypes.data,) * 3 + (1,), shared)  # type: ignore[arg-type]


def test_the_host_library_has_every_kernel() -> None:
    kernels = HostKernels()
    for name in source.signatures():
        kernels._find(name)
