"""GPU support: NVIDIA's run-time compiler NVRTC, fetched into the data folder when the owner asks for it.

The CUDA kernels are compiled on the owner's machine and launched through the driver, so this one library is all they
need besides the driver: 90 MB, where PyTorch with CUDA would be some 2.5 GB. It is the file of the Python package
nvidia-cuda-nvrtc, by its checksum; resumed after any interruption, as every download.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from engine.errors import EngineError, FileError
from engine.hub.connection import Connection, HubSettings
from engine.hub.file_download import FileDownload
from engine.hub.folders import gpu_support_folder
from engine.hub.journal import Source, discard, kept_bytes

HOST = "https://files.pythonhosted.org"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Component:
    """`source` is a file below HOST, `libraries` the folder in it that is wanted, `unpacked` its bytes in all."""

    source: Source
    libraries: str
    unpacked: int


_LINUX = Component(
    Source(
        "packages/c3/68/483a78f5e8f31b08fb1bb671559968c0ca3a065ac7acabfc7cee55214fd6",
        "",
        "nvidia_cuda_nvrtc-13.0.88-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
        90_215_200,
        "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
    ),
    "nvidia/cu13/lib",
    113_718_680,
)
_WINDOWS = Component(
    Source(
        "packages/4a/af/345fedb9f4c76c84ab4fa445b36bd4048a4d9db60e6bc76b4f913ff4b852",
        "",
        "nvidia_cuda_nvrtc-13.0.88-py3-none-win_amd64.whl",
        76_807_835,
        "6bcd4e7f8e205cbe644f5a98f2f799bef9556fefc89dd786e79a16312ce49872",
    ),
    "nvidia/cu13/bin/x86_64",
    95_436_352,
)


def component_for_this_system() -> Component | None:
    """None where there are no NVIDIA GPUs to support."""
    return {"linux": _LINUX, "win32": _WINDOWS}.get(sys.platform)


class GpuSupport:
    """One component in `folder` (default: in the user's data folder), which is there complete, or not at all."""

    def __init__(self, component: Component, folder: Path | None = None) -> None:
        self.component = component
        self.folder = folder or gpu_support_folder()
        self._root = self.folder.parent
        self._package = self._root / component.source.path

    @property
    def is_installed(self) -> bool:
        return self.folder.is_dir()

    @property
    def kept_bytes(self) -> int:
        """What an interrupted download has left."""
        return kept_bytes(self._package, self.component.source)

    def download(self, settings: HubSettings) -> FileDownload:
        """The transfer, to be `run`; the owner's proxy, certificates and offline mode hold, his token stays here."""
        return FileDownload(Connection(replace(settings, endpoint=HOST)), self.component.source, self._package)

    def install(self) -> None:
        """Unpack the downloaded, verified package. Raises FileError; nothing half-unpacked is ever found."""
        self._root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._root).free
        if free < self.component.unpacked:
            needed = f"{self.component.unpacked / 1e6:.0f} MB are needed"
            raise FileError(
                f"There is no room for GPU support in {self._root}: {needed}, {free / 1e6:.0f} MB are free.",
                done="What was downloaded is kept.",
                remedy="Free some space, then install it again.",
            )
        part = self.folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            self._unpack(part)
            shutil.rmtree(self.folder, ignore_errors=True)
            part.replace(self.folder)
        except (OSError, zipfile.BadZipFile) as error:
            shutil.rmtree(part, ignore_errors=True)
            reason = getattr(error, "strerror", None) or error
            raise FileError(
                f"GPU support could not be unpacked to {self._root}: {reason}.", remedy="Install it again."
            ) from error
        discard(self._package)
        self._package.unlink(missing_ok=True)

    def _unpack(self, target: Path) -> None:
        with zipfile.ZipFile(self._package) as archive:
            for info in archive.infolist():
                path = PurePosixPath(info.filename)
                # The “.alt” builds are for processes that load two versions at once.
                if path.parent.as_posix() == self.component.libraries and ".alt." not in path.name:
                    with archive.open(info) as source, (target / path.name).open("wb") as file:
                        shutil.copyfileobj(source, file, CHUNK)
        if not any(target.iterdir()):
            raise EngineError(f"{self._package.name} holds no libraries.", remedy="Install it again.")

    def remove(self) -> None:
        """Take it away, with what an interrupted download has left. Loaded libraries serve until the program ends."""
        shutil.rmtree(self.folder, ignore_errors=True)
        discard(self._package)
        self._package.unlink(missing_ok=True)
