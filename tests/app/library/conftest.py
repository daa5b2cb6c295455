"""The real window's library, offscreen, with a hub on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring

from app.library.hub_services import HubServices, make_settings
from app.library.library_page import LibraryPage
from engine.hub.file_download import FileDownload
from engine.hub.fit import Machine
from engine.hub.places import Place
from engine.hub.token import TokenStore
from tests.support.hub_server import FakeHub
from tests.support.small_gguf import small_gguf


@dataclass
class Opened:
    """The library page of a running application, and the hub it asks."""

    app: Any
    page: LibraryPage
    hub: FakeHub

    @property
    def controller(self):
        return self.app.context.library

    def tab(self, key: str):
        return self.page.show_tab(key)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    with FakeHub() as running:
        yield running
    keyring.set_keyring(before)


@pytest.fixture
def open_library(start: Callable[..., Any], hub: FakeHub, qtbot, data_folder, tmp_path: Path) -> Callable[..., Opened]:
    """Starts the application and shows its library; the machine has 32 GiB of RAM and 12 GiB of VRAM."""

    def make(**settings: object) -> Opened:
        (data_folder.models / "Scripted-1B.Q4_K_M.gguf").write_bytes(small_gguf().build())
        app = start()

        values = {"hub_endpoint": hub.url, "hub_proxy": "none"} | settings
        for name, value in values.items():
            app.context.settings.set(name, value)

        def factory() -> HubServices:
            services = HubServices(
                data_folder.root,
                data_folder.models,
                make_settings(app.context.settings.__getitem__),
                tokens=TokenStore(tmp_path / "tokens.json"),
                places=(Place(tmp_path / "lmstudio", "LM Studio"),),
                cache=tmp_path / "cache",
                fetch=FileDownload,  # on a busy machine a process takes seconds to start
            )
            services.machine = Machine(32 << 30, 12 << 30)
            return services

        app.context.library.factory = factory
        app.window.show_page("library")
        page = app.window.page("library")
        qtbot.waitUntil(lambda: bool(app.context.library.entries))
        return Opened(app, page, hub)

    return make


@pytest.fixture
def library(open_library: Callable[..., Opened]) -> Opened:
    return open_library()
