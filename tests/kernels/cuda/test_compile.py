"""Every unit becomes machine code for every architecture we support, without spilling registers. NVRTC needs no GPU.

sm_75 (whose tensor cores have instructions of their own) compiles everything; the other architectures, which share one
source, compile every unit once between them, and with --soak each compiles all. A missing NVRTC fails.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernels.cuda import nvrtc, source

COMPLETE = (75,)
OTHERS = (80, 86, 89, 90, 100, 120)
# Kernels that may use a stack frame or spill, with the reason.
MAY_SPILL: dict[str, str] = {}

_FUNCTION = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
    re.S,
)


def units_for(capability: int, soak: bool) -> list[source.Unit]:
    units = list(source.units().values())
    if soak or capability in COMPLETE:
        return units
    return units[OTHERS.index(capability) :: len(OTHERS)]


@pytest.mark.parametrize("capability", [*COMPLETE, *OTHERS])
def test_every_kernel_compiles_without_spills(capability: int, soak: bool) -> None:
    units = units_for(capability, soak)
    with ThreadPoolExecutor(2) as threads:  # ctypes gives the GIL back while NVRTC works
        images = list(threads.map(lambda unit: nvrtc.compile_unit(unit, f"sm_{capability}"), units))
    for unit, image in zip(units, images, strict=True):
        assert image.data[:4] == b"\x7fELF"
        found = {
            name: (int(stack), int(stores) + int(loads)) for name, stack, stores, loads in _FUNCTION.findall(image.log)
        }
        expected = {name for name, signature in source.signatures().items() if signature.unit == unit}
        assert set(found) == expected
        spilling = {name for name, uses in found.items() if any(uses)}
        assert spilling <= set(MAY_SPILL), {name: found[name] for name in spilling}


def test_a_newer_gpu_gets_portable_code() -> None:
    assert nvrtc.target(90) == "sm_90"
    newest = nvrtc.supported()[-1]
    assert nvrtc.target(newest + 50) == f"compute_{newest}"
    assert b".target" in nvrtc.compile_unit(source.units()["rows"], nvrtc.target(newest + 50)).data
    with pytest.raises(nvrtc.NvrtcError, match="older"):
        nvrtc.target(30)


def test_compiler_errors_are_shown() -> None:
    with pytest.raises(nvrtc.NvrtcError, match="no_such_type"):
        nvrtc.compile_unit(source.Unit("broken", "matvec.cu", "no_such_type"), "sm_90")


def test_images_are_cached_by_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = source.units()["rows"]
    image = nvrtc.load_or_compile(unit, "compute_75", tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"from the cache")
    assert nvrtc.load_or_compile(unit, "compute_75", tmp_path) == b"from the cache"
    assert nvrtc.load_or_compile(unit, "compute_80", tmp_path) != image
    monkeypatch.setattr(source, "headers", lambda: {"language.cuh": source._read("language.cuh") + "// changed"})
    monkeypatch.setattr(nvrtc, "compile_unit", lambda *_: nvrtc.Image(b"compiled again", ""))
    assert nvrtc.load_or_compile(unit, "compute_75", tmp_path) == b"compiled again"
