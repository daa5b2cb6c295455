"""The library's pages as they look in use: models in every state, a searched hub, downloads under way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QApplication, QWidget

from app.library.hub_dialog import HubDialog
from app.library.hub_services import HubServices
from app.library.models_table import EntryRole
from engine.gguf import QuantType
from engine.hub.connection import HubSettings
from engine.hub.fit import Machine
from engine.hub.places import Place
from engine.hub.repository import open_repository
from engine.hub.token import TokenStore
from tests.support.gguf_writer import GGUFBuilder
from tests.support.hub_content import Noise, Repository
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub
from tests.support.small_gguf import small_gguf

README = """# Qwen3-30B-A3B

Qwen3 is the latest generation of **large language models**.

| Benchmark | Score |
|---|---|
| MMLU | 81.4 |
| GPQA | 65.8 |

- Thinking and non-thinking modes
- 119 languages
"""
SIZES = {"Q2_K": 11.3, "Q3_K_M": 14.7, "Q4_K_M": 18.6, "Q5_K_M": 21.7, "Q6_K": 25.1, "Q8_0": 32.5}
GGUF = {"total": 30_532_122_624, "architecture": "qwen3moe", "context_length": 40960}


@dataclass(frozen=True)
class _Padded:
    """A small file that claims to be a large one; what lies behind its header is never asked for."""

    size: int
    data: bytes
    sha256: str

    def read(self, begin: int, end: int) -> bytes:
        return self.data[begin:end].ljust(min(end, self.size) - begin, b"\0")


def library_pages(context: Any, root: Path) -> Iterator[tuple[str, QWidget]]:
    """Shows the library of a running application in all its states; `root` is a folder for its files."""
    window = context.window
    with FakeHub() as hub:
        _fill_hub(hub)
        context.library.factory = lambda: _services(context, hub, root)
        window.show_page("library")
        page = window.page("library")
        _wait(lambda: context.library.services)
        yield from _no_models(context)
        yield from _model_pages(context, root, page)
        page.show_tab("downloads")
        yield "library-downloads-none", window
        yield from _discover_pages(window, page, hub)
        yield "library-downloads", _show_downloads(context, hub, page)
        yield "library-downloads-stopped", _stop_downloads(context, hub, page)
        page.show_tab("models")
        yield "library-downloading", window
        context.library.services.downloads.pause_all()
        yield from _in_a_small_window(window, page)
        page.open_hub_dialog()
        dialog = page.findChild(HubDialog)
        _wait(dialog.isVisible)
        yield "library-hub-dialog", dialog
        dialog.close()
    services = context.library.services
    discover = page.show_tab("discover")
    for name, changes in (("unreachable", {"endpoint": "http://127.0.0.1:9"}), ("offline", {"offline": True})):
        services.change(replace(services.settings, **changes))
        discover.field.setText(f"qwen {name}")
        _wait(lambda: discover.search.error)
        yield f"library-{name}", window


def _no_models(context: Any) -> Iterator[tuple[str, QWidget]]:
    folder = context.models.models_folder
    away = folder.with_name("away")
    folder.rename(away)
    context.library.refresh()
    _wait(lambda: not context.library.entries)
    yield "library-empty", context.window
    away.rename(folder)


def _model_pages(context: Any, root: Path, page: Any) -> Iterator[tuple[str, QWidget]]:
    _fill_models(context.models.models_folder, root / "lmstudio")
    crashed = root / "lmstudio" / "Mistral-Nemo-Instruct-2407-Q4_K_M.gguf"
    context.folder.crash_record.write_text(json.dumps({str(crashed): 2}))
    context.library.refresh()
    _wait(lambda: context.library.entries)
    models = page.show_tab("models")
    yield "library-models", context.window
    for beginning, name in (
        ("Gemma", "ready"),
        ("SmolLM2", "in-use"),
        ("Mistral", "crashed"),
        ("Llama", "corrupt"),
        ("Qwen3", "incomplete"),
        ("BitNet", "unsupported"),
    ):
        _select(models, beginning)
        yield f"library-{name}", context.window
    context.window.resize(context.window.width() + 480, context.window.height())
    yield "library-models-wide", context.window
    context.window.resize(context.window.width() - 480, context.window.height())


def _select(models: Any, beginning: str) -> None:
    for row in range(models.table.proxy.rowCount()):
        if models.table.proxy.index(row, 0).data(EntryRole).title.startswith(beginning):
            models.table.selectRow(row)
    _wait(lambda: models.drawer.entry.title.startswith(beginning))


def _discover_pages(window: QWidget, page: Any, hub: FakeHub) -> Iterator[tuple[str, QWidget]]:
    discover = page.show_tab("discover")
    _wait(discover.model.rowCount)
    yield "library-discover", window
    hub.hub_faults.append(Fault(then="stall"))
    asked = len(hub.requests)
    discover.field.setText("Nothing like")
    _wait(lambda: len(hub.requests) > asked)
    yield "library-searching", window
    discover.field.setText("Nothing like it")
    _wait(lambda: discover.search.is_finished)
    yield "library-nothing-found", window
    discover.field.setText("Qwen3-30B")
    _wait(lambda: discover.search.is_finished)
    discover.list.setCurrentIndex(discover.model.index(3, 0))
    _wait(lambda: discover.card.header_error)
    yield "library-gated", window
    discover.list.setCurrentIndex(discover.model.index(0, 0))
    _wait(lambda: discover.card.can_measure)
    discover.view.rows[2].chosen.emit()
    _wait(lambda: not discover.card.is_reading)
    yield "library-card", window
    discover.card.read_description()
    _wait(lambda: discover.card.description)
    yield "library-description", window


def _in_a_small_window(window: QWidget, page: Any) -> Iterator[tuple[str, QWidget]]:
    size = window.size()
    window.resize(440, 560)
    for tab in ("models", "discover", "downloads"):
        page.show_tab(tab)
        _wait(lambda: True)
        yield f"library-small-{tab}", window
    window.resize(size)


def _fill_models(folder: Path, other: Path) -> None:
    other.mkdir(parents=True, exist_ok=True)
    fork = small_gguf().tensor_raw("blk.0.x.weight", (64, 64), 134, bytes(4096))
    odd = small_gguf(tokenizer__ggml__pre=None, tokenizer__chat_template=None, odd__key=3)
    odd.write(folder / "Gemma-3-12b-it-Q4_0.gguf")
    small_gguf().write(folder / "SmolLM2-135M-Instruct.Q4_1.gguf")  # the one that is loaded
    fork.write(folder / "BitNet-b1.58-IQ1_BN.gguf")
    small_gguf().write(other / "Mistral-Nemo-Instruct-2407-Q4_K_M.gguf")
    (folder / "Llama-3.1-8B-Q4_K_M.gguf").write_bytes(small_gguf().build()[:400])
    for number in (0, 2):
        shard = small_gguf() if number == 0 else GGUFBuilder("llama")
        shard.add_all({"split.no": number, "split.count": 3, "split.tensors.count": 4})
        if number:
            shard.tensor("blk.1.ffn_up.weight", (64, 64), QuantType.Q8_0)
        shard.write(folder / f"Qwen3-235B-A22B-Q2_K-{number + 1:05d}-of-00003.gguf")


def _fill_hub(hub: FakeHub) -> None:
    data = small_gguf(tokens=1000).build()
    files: dict[str, Any] = {
        f"Qwen3-30B-A3B-{label}.gguf": _Padded(int(size * 1e9), data, f"{number:064x}")
        for number, (label, size) in enumerate(SIZES.items())
    }
    for number in (1, 2):
        files[f"BF16/Qwen3-30B-A3B-BF16-{number:05d}-of-00002.gguf"] = _Padded(
            30_500_000_000, data, f"{90 + number:064x}"
        )
    hub.add(Repository("Qwen/Qwen3-30B-A3B-GGUF", files, gguf=GGUF, downloads=1_234_567, likes=412, readme=README))
    for number in range(40):
        name = f"maker{number}/Qwen3-30B-variant-{number}-GGUF"
        file = _Padded(18_600_000_000, data, f"{200 + number:064x}")
        files = {f"Qwen3-30B-variant-{number}-Q4_K_M.gguf": file}
        gated, downloads = number % 5 == 2, 90_000 - 1000 * number
        hub.add(Repository(name, files, gguf=GGUF, downloads=downloads, likes=number, gated=gated))


def _services(context: Any, hub: FakeHub, root: Path) -> HubServices:
    services = HubServices(
        root,
        context.models.models_folder,
        HubSettings(hub.url, proxy="none"),
        tokens=TokenStore(root / "tokens.json"),
        places=(Place(root / "lmstudio", "LM Studio"),),
        cache=root / "cache",
    )
    services.machine = Machine(32 << 30, 12 << 30)
    return services


def _show_downloads(context: Any, hub: FakeHub, page: Any) -> QWidget:
    services = context.library.services
    hub.every = lambda number: Fault(rate=4e6)
    for name, size in (("Llama-3.2-1B-Instruct-Q4_K_M", 30), ("gpt-oss-20b-mxfp4", 60), ("Qwen3-8B-Q4_K_M", 20)):
        hub.add(Repository(f"maker/{name}", {f"{name}.gguf": Noise(size * 1_000_000)}))
        card = open_repository(services.connect(), f"maker/{name}")
        services.download(card, card.listing.models[0])
    context.library.downloads.watch()
    page.show_tab("downloads")
    _wait(lambda: len(context.library.downloads.statuses) == 3 and context.library.downloads.statuses[1].done > 3e6)
    services.downloads.pause(context.library.downloads.statuses[1].id)
    _wait(lambda: context.library.downloads.statuses[2].done > 5e5)
    return context.window


def _stop_downloads(context: Any, hub: FakeHub, page: Any) -> QWidget:
    """One that failed, one for which the disk is too small, one that has ended."""
    services, watch = context.library.services, context.library.downloads
    services.downloads.pause_all()
    hub.every = None
    files = {"Damaged-8B-Q4_K_M": Noise(1_000_000), "Llama-4-Scout-Q8_0": _Padded(1 << 45, b"", f"{7:064x}")}
    for name, content in files.items():
        hub.add(Repository(f"maker/{name}", {f"{name}.gguf": content}))
        card = open_repository(services.connect(), f"maker/{name}")
        if name.startswith("Damaged"):
            hub.same_host = True
            hub.repositories[f"maker/{name}"].files[f"{name}.gguf"] = Noise(1_000_000, 5)
        services.download(card, card.listing.models[0])
    services.downloads.resume(watch.statuses[2].id)
    watch.watch()
    page.show_tab("downloads")
    ended = ("DONE", "PAUSED", "FAILED")
    _wait(lambda: [one.state.name in ended for one in watch.statuses] == 5 * [True], 60)
    hub.same_host = False
    return context.window


def _wait(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the library did not get there"
        QApplication.processEvents()
        time.sleep(0.005)
    for _ in range(20):
        QApplication.processEvents()
        time.sleep(0.005)
