"""`machine`: every kernel test runs in three thread orders on the host, or with --device on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cuda_machine import ORDERS, DeviceMachine, HostMachine, Machine


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "machine" in metafunc.fixturenames:
        on_device = metafunc.config.getoption("--device")
        metafunc.parametrize("machine", ["device"] if on_device else list(ORDERS), indirect=True)


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if request.param == "device":
        device = DeviceMachine(tmp_path_factory.getbasetemp() / "cubins")
        yield device
        device.close()
    else:
        library = request.config.getoption("--cuda-library")
        yield HostMachine(ORDERS[request.param], Path(library) if library else None)
