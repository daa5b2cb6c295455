"""Health checks of this machine: each says what was found and, where something is missing, how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from engine.child_process import is_bundled
from engine.hub.errors import disk_text
from engine.runtime.devices.cuda.find import find_card
from engine.telemetry.gpus import GPUReport, read_gpus

GIB = 1 << 30


class Health(Enum):
    GOOD = "good"
    LIMITED = "limited"  # works, with something missing
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    health: Health
    found: str
    remedy: str = ""


def version() -> str:
    """Tessera's own."""
    try:
        return importlib.metadata.version("tessera")
    except importlib.metadata.PackageNotFoundError:
        return "from source"


def run_checks(models_folder: Path, *, has_display: bool) -> list[Check]:
    """All checks, in reading order. A check that itself fails is reported as broken, with the error's text."""
    checks: list[Check] = []
    disk = partial(_disk, models_folder)
    display = partial(_display, has_display)
    for check in (_cpu, _kernels, _memory, _gpus, disk, _python, _packages, display):
        checks.extend(_guarded(check))
    return checks


def check_data_folder(folder: Path) -> Check:
    """Whether files can be written in `folder`, made for the check where it is missing; nothing of it stays."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Check("Data folder", Health.GOOD, str(folder))
    except OSError as error:
        found = f"The folder {folder} cannot be used: {error.strerror or error}."
        return Check("Data folder", Health.BROKEN, found, "Choose another folder, or change its permissions.")
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def _guarded(check: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        return list(check())
    except Exception as error:
        name = getattr(check, "__name__", "A check").strip("_")
        return [Check(name, Health.BROKEN, f"The check failed: {error}", "Please report this.")]


def _cpu() -> Iterator[Check]:
    import psutil

    physical = psutil.cpu_count(logical=False) or 1
    yield Check("Processor", Health.GOOD, f"{_processor_name()}, {physical} cores, {os.cpu_count()} threads")


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_tier() -> str:
    """The instruction set that the kernels use here."""
    from kernels import _cpu

    return _cpu.best_tier()


def _kernels() -> Iterator[Check]:
    if importlib.util.find_spec("kernels._cpu") is None:
        remedy = "Run `make run` (from source) or install Tessera again."
        yield Check("CPU kernels", Health.BROKEN, "The native kernels are not built.", remedy)
        return
    tier = cpu_tier()
    if tier == "scalar":
        yield Check("CPU kernels", Health.LIMITED, "scalar", "This processor lacks AVX2; answers will be slow.")
    else:
        yield Check("CPU kernels", Health.GOOD, tier)


def _memory() -> Iterator[Check]:
    import psutil

    memory = psutil.virtual_memory()
    found = f"{memory.total / GIB:.1f} GiB, {memory.available / GIB:.1f} GiB available"
    if memory.available < 2 * GIB:
        yield Check("Memory", Health.LIMITED, found, "Close other programs before loading a model.")
    else:
        yield Check("Memory", Health.GOOD, found)


def _gpus() -> Iterator[Check]:
    report: GPUReport = read_gpus()
    if not report.gpus:
        remedy = "Models run on the processor. With an NVIDIA GPU, install its driver from nvidia.com."
        yield Check("GPU", Health.LIMITED, report.reason, remedy)
    for gpu in report.gpus:
        memory = "memory unknown" if gpu.memory_total is None else f"{gpu.memory_total / GIB:.1f} GiB"
        yield Check(f"GPU {gpu.index}", Health.GOOD, f"{gpu.name}, {memory}, driver {report.driver}")
    if report.gpus:
        found = find_card()
        if found.is_usable:
            yield Check("GPU support", Health.GOOD, f"CUDA kernels for compute capability {found.capability / 10}")
        else:
            yield Check("GPU support", Health.LIMITED, found.reason, found.remedy or "Models run on the processor.")


def _disk(models_folder: Path) -> Iterator[Check]:
    folder = next(parent for parent in (models_folder, *models_folder.parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    found = f"{disk_text(free)} free for {models_folder}"
    if free < 5 * 10**9:
        yield Check("Disk", Health.LIMITED, found, "Free some space, or choose another models folder.")
    else:
        yield Check("Disk", Health.GOOD, found)


def _python() -> Iterator[Check]:
    yield Check("Tessera", Health.GOOD, f"{version()}, bundle" if is_bundled() else version())
    yield Check("System", Health.GOOD, f"{platform.platform()}, Python {platform.python_version()}")


_PACKAGES = (
    ("pyside6-essentials", "the window"),
    ("llama-cpp-python", "tokenizers and the compatibility engine"),
    ("huggingface-hub", "downloads"),
    ("psutil", "memory readings"),
    ("nvidia-ml-py", "GPU readings"),
    ("numpy", "the engine"),
    ("jinja2", "chat templates"),
)


def _packages() -> Iterator[Check]:
    for name, purpose in _PACKAGES:
        try:
            yield Check(name, Health.GOOD, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            remedy = "Install Tessera again." if is_bundled() else f"pip install {name}"
            yield Check(name, Health.BROKEN, f"Missing; needed for {purpose}.", remedy)


def _display(has_display: bool) -> Iterator[Check]:
    if has_display:
        yield Check("Display", Health.GOOD, "A desktop session.")
    else:
        remedy = "Start Tessera from a desktop session; without one it chats in the terminal."
        yield Check("Display", Health.LIMITED, "No display.", remedy)
