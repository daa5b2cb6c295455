"""GPU support is installed whole and verified, resumed, found by the kernels, and removed without a trace."""

from __future__ import annotations

import io
import zipfile
from types import SimpleNamespace

import pytest

from engine.errors import FileError
from engine.hub import gpu_support
from engine.hub.file_download import FileDownload
from engine.hub.gpu_support import HOST, Component, GpuSupport
from engine.hub.journal import Source
from engine.hub.ranged import file_url
from kernels.cuda import nvrtc
from tests.engine.hub.conftest import publish
from tests.support.hub_content import Bytes
from tests.support.hub_faults import Fault

LIBRARY = "libnvrtc.so.13"


def package() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"nvidia/cu13/lib/{LIBRARY}", b"\x7fELF" + b"x" * 300_000)
        archive.writestr("nvidia/cu13/lib/libnvrtc.alt.so.13", b"another build")
        archive.writestr("nvidia/cu13/lib/libnvrtc-builtins.so.13.0", b"\x7fELF")
        archive.writestr("nvidia/cu13/include/nvrtc.h", b"// a header")
        archive.writestr("../../escape.so", b"no")
    return buffer.getvalue()


@pytest.fixture
def support(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(nvrtc, "_first", [])
    source = publish(hub, Bytes(package()), "nvrtc.whl")
    return GpuSupport(Component(source, "nvidia/cu13/lib", 1000), tmp_path / "components" / "nvrtc")


def fetch(support: GpuSupport, connection) -> FileDownload:
    transfer = FileDownload(connection, support.component.source, support._package, patience=0.001)
    transfer.run()
    return transfer


def test_it_is_downloaded_unpacked_found_and_removed(support, connect, tmp_path):
    assert not support.is_installed
    fetch(support, connect())
    support.install()
    assert support.is_installed
    assert sorted(path.name for path in support.folder.iterdir()) == ["libnvrtc-builtins.so.13.0", LIBRARY]
    nvrtc.search_first(support.folder)
    assert nvrtc.find() == support.folder / LIBRARY
    assert list(tmp_path.rglob("*.whl")) == []
    assert not list(tmp_path.rglob("escape.so"))
    support.remove()
    assert not support.is_installed
    assert nvrtc.find() != support.folder / LIBRARY


def test_an_interrupted_download_goes_on_where_it_was(support, hub, connect):
    source = support.component.source
    hub.faults.append(Fault(after=source.size // 2, then="cut"))
    transfer = fetch(support, connect())
    assert transfer.received == source.size  # nothing came twice
    support.install()
    assert support.is_installed


def test_a_damaged_package_leaves_nothing_behind(support):
    support._package.parent.mkdir(parents=True)
    support._package.write_bytes(b"no zip")
    with pytest.raises(FileError, match="unpacked"):
        support.install()
    assert not support.is_installed
    assert not list(support.folder.parent.glob("*.part"))


def test_too_little_room_is_said_before(support, monkeypatch):
    monkeypatch.setattr(gpu_support.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(FileError, match="no room"):
        support.install()


def test_the_addresses_are_those_of_the_package_host(connect):
    for component in (gpu_support._LINUX, gpu_support._WINDOWS):
        url = str(file_url(connect(endpoint=HOST), component.source))
        assert url == f"{HOST}/{component.source.repository}/{component.source.path}"
        assert len(component.source.sha256) == 64


def test_a_source_with_a_revision_is_the_hubs(connect, hub):
    source = Source("a/b", "main", "x y.gguf", 1)
    assert str(file_url(connect(), source)) == f"{hub.url}/a/b/resolve/main/x%20y.gguf"
