"""`machine`: every kernel test runs in three thread orders on the host, or with --device on a GPU.

Codebook types differ from the others in how a thread unpacks a slice, which no order can change: each runs in one
order, in turn, and with --soak in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.hub.folders import cache_folder
from tests.support.cuda_machine import ORDERS, DeviceMachine, HostMachine, Machine
from tests.support.quantize import CODEBOOK_TYPES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" in metafunc.fixturenames:
        on_device = metafunc.config.getoption("--device")
        metafunc.parametrize("machine", ["device"] if on_device else list(ORDERS), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--device") or config.getoption("--soak"):
        return
    spared = [item for item in items if _is_spared(item)]
    config.hook.pytest_deselected(items=spared)
    items[:] = [item for item in items if item not in set(spared)]


def _is_spared(item: pytest.Item) -> bool:
    chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    name, order = chosen.get("name"), chosen.get("machine")
    if order is None or name not in CODEBOOK_TYPES:
        return False
    return list(ORDERS)[CODEBOOK_TYPES.index(name) % len(ORDERS)] != order


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    if request.param == "device":
        device = DeviceMachine(cache_folder() / "cubins")
        yield device
        device.close()
    else:
        library = request.config.getoption("--cuda-library")
        yield HostMachine(ORDERS[request.param], Path(library) if library else None)
