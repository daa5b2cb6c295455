"""The card's probe over the stand-in driver, whose times mean nothing: what is measured, released, reported, and what
happens where the card refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.placement.budget import HEADROOM_BYTES
from engine.placement.hardware import card_bench, catalogue, gpu_probe, probe, store
from engine.placement.hardware.card import with_datasheet
from engine.placement.hardware.card_bench import CardBench
from engine.placement.hardware.card_works import Extent, round_trip_seconds
from engine.placement.hardware.profile import ATTENTION, HardwareProfile
from engine.runtime.devices import open as opening
from engine.runtime.devices.cuda.find import FoundCard, find_card
from engine.telemetry.gpus import GPU, GPUReport
from kernels.cuda import source
from kernels.cuda.driver import Driver
from kernels.cuda.host import library_path
from kernels.cuda.kernel_set import LaunchError
from tests.engine.placement.test_hardware import _fake_measure
from tests.support.stand_in_card import CONTEXT_BYTES, calls, charged, fail_allocation, no_compiler, open_card, set_card

TINY = Extent(
    warming_seconds=0.0,
    pool_bytes=256 << 10,
    workspace_bytes=512 << 10,
    side=256,
    batches=(1, 9),
    heads=2,
    kv_heads=1,
    head_dim=64,
    depth=32,
    prompt=9,
    element_tokens=4,
    expert_cols=256,
    expert_rows=256,
    experts_used=2,
    copies=(4 << 10, 64 << 10),
)
FEW_TYPES = {12: "q4_k", 8: "q8_0", 1: "f16"}
REPORT = GPUReport((GPU(0, "Stand-in", 8 << 30),), "570.1", "")
ALL = [part.name for part in gpu_probe.PARTS]


@pytest.fixture
def card() -> Iterator[FoundCard]:
    set_card()
    with no_compiler():
        yield find_card(library_path())
    fail_allocation(0)
    assert charged() == 0
    set_card()


@pytest.fixture
def few_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "WEIGHT_TYPES", FEW_TYPES)


def datasheet(card: FoundCard) -> HardwareProfile:
    assert card.facts is not None
    return replace(with_datasheet(catalogue.machine("Ryzen 7 5800X"), card.facts), notes=())


def measure(card: FoundCard, folder: Path, patience: float = 300.0) -> HardwareProfile:
    return gpu_probe.with_measured_card(datasheet(card), card, folder, probe.silent, TINY, patience)


def test_everything_is_measured_between_events_and_given_back(card: FoundCard, tmp_path: Path) -> None:
    seen: list[tuple[float, str]] = []
    before, timed = datasheet(card), calls("cuEventElapsedTime")
    made = gpu_probe.with_measured_card(
        before, card, tmp_path, lambda *said: seen.append(said), replace(TINY, batches=(1,)), 300.0
    )
    assert made.gpu is not None and made.link is not None and made.card_measured is not None
    assert before.gpu is not None and before.link is not None
    assert set(made.card_measured) >= set(ALL) and made.source == "measured"
    assert made.notes == ("The speed of Stand-in was measured here.",)
    names = {gpu_probe._product(kind).name.removeprefix("products of ") for kind in gpu_probe._types()}
    assert set(made.gpu.kernels.points) == names | {"*", ATTENTION} and len(names) == len(source.WEIGHT_TYPES)
    assert made.gpu.kernels.points["*"] == made.gpu.kernels.points["Q4_K"]
    assert [rows for rows, _ in made.gpu.kernels.points[ATTENTION]] == [1, 2, 18] and ATTENTION not in made.gpu.stalls
    assert all(rate > 0 for points in made.gpu.kernels.points.values() for _, rate in points)
    assert made.gpu.bandwidth != before.gpu.bandwidth and made.gpu.op_seconds != before.gpu.op_seconds
    assert 0 < made.gpu.scattered_share <= 1 and all(rate > 0 for rate in made.gpu.element_rates.values())
    for name in ("to_gpu", "to_cpu", "pageable", "latency", "switch_seconds"):
        assert getattr(made.link, name) > 0 and getattr(made.link, name) != getattr(before.link, name), name
    assert calls("cuEventElapsedTime") - timed >= 4 * (len(source.WEIGHT_TYPES) + 10)
    fractions, stages = zip(*seen, strict=True)
    assert list(fractions) == sorted(fractions) and fractions[-1] == 1
    assert {f"{part.name} on the card" for part in gpu_probe.PARTS[:-1]} <= set(stages)


def test_it_keeps_within_what_stays_free_on_every_card() -> None:
    assert Extent().bytes <= HEADROOM_BYTES


@pytest.mark.usefixtures("few_types")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_refused_allocation_leaves_the_datasheet(card: FoundCard, tmp_path: Path, number: int) -> None:
    fail_allocation(number)
    made, before = measure(card, tmp_path), datasheet(card)
    assert made.card_measured == () and made.source == "mixed" and made.gpu == before.gpu and made.link == before.link
    assert made.notes == ("The speed of Stand-in could not be measured: it is from its datasheet.",)


@pytest.mark.usefixtures("few_types")
def test_a_card_that_others_fill_is_not_touched(card: FoundCard, tmp_path: Path) -> None:
    set_card(total=CONTEXT_BYTES * 2)
    larger, copies = replace(TINY, pool_bytes=CONTEXT_BYTES), calls("cuMemcpyAsync")
    made = gpu_probe.with_measured_card(datasheet(card), card, tmp_path, probe.silent, larger)
    assert made.card_measured == () and calls("cuMemcpyAsync") == copies


@pytest.mark.usefixtures("few_types")
def test_without_pinned_memory_the_rest_is_measured(card: FoundCard, tmp_path: Path) -> None:
    set_card(pinned=0)
    made, before = measure(card, tmp_path), datasheet(card)
    missing = [name for name in ALL if name not in (made.card_measured or ())]
    assert missing == [gpu_probe.COPIES.name, gpu_probe.SWITCH.name]
    assert made.link is not None and before.link is not None and made.source == "mixed"
    assert made.link.to_gpu == before.link.to_gpu and made.link.switch_seconds == before.link.switch_seconds
    assert made.link.pageable != before.link.pageable
    assert made.notes == (
        "The speed of Stand-in was measured here. Not measured but of its datasheet: copies over the link. "
        "Not measured but of its datasheet: handing over to the processor.",
    )


@pytest.mark.usefixtures("few_types")
@pytest.mark.parametrize("function", ["cuEventElapsedTime", "cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags"])
def test_a_driver_that_refuses_what_timing_needs(
    card: FoundCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    call = Driver.call

    def refuse(self: Driver, name: str, *args: object) -> None:
        if name == function:
            raise LaunchError(f"{name}: refused")
        call(self, name, *args)

    monkeypatch.setattr(Driver, "call", refuse)
    made, before = measure(card, tmp_path), datasheet(card)
    captures = function != "cuEventElapsedTime"
    assert made.card_measured == ((gpu_probe.PAGEABLE.name,) if captures else ())
    assert made.gpu is not None and before.gpu is not None and made.gpu.bandwidth == before.gpu.bandwidth


@pytest.mark.usefixtures("few_types")
def test_what_the_time_does_not_suffice_for_stays_as_it_is(card: FoundCard, tmp_path: Path) -> None:
    assert measure(card, tmp_path, patience=-1.0).card_measured == ()


@pytest.mark.usefixtures("few_types")
def test_the_time_binds_each_run(card: FoundCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that a launch puts forward by 0.1 s: only what runs when the time is up runs on."""
    now, launched, call = [0.0], list[float](), Driver.call

    def launch_slowly(self: Driver, name: str, *args: object) -> None:
        if name == "cuGraphLaunch":
            launched.append(now[0])
            now[0] += 0.1
        call(self, name, *args)

    monkeypatch.setattr(Driver, "call", launch_slowly)
    monkeypatch.setattr(card_bench, "_SECONDS_PER_WORK", 0.0)  # four launches each
    for module in (card_bench, gpu_probe):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    made = measure(card, tmp_path, patience=3.0)
    assert 2.9 < launched[-1] <= 3.0 and made.source == "mixed"
    assert made.card_measured and gpu_probe.MEMORY.name in made.card_measured
    assert gpu_probe.PRODUCTS.name not in made.card_measured


@pytest.mark.usefixtures("few_types")
def test_kernels_that_cannot_be_compiled_leave_their_part(
    card: FoundCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernels.cuda import nvrtc

    def compile_some(unit: source.Unit, *_: object) -> bytes:
        if unit.name in ("prefill_f16", "matmul_q8_0"):
            raise nvrtc.NvrtcError("refused")
        return b"image"

    with monkeypatch.context() as patched:  # undone before the card's own patch of the same function is
        patched.setattr(nvrtc, "load_or_compile", compile_some)
        made = measure(card, tmp_path)
    assert made.gpu is not None and made.card_measured is not None
    assert [name for name in ALL if name not in made.card_measured] == [gpu_probe.CACHE.name]
    assert {"Q4_K", "F16"} <= set(made.gpu.kernels.points) and "Q8_0" not in made.gpu.kernels.points
    assert made.notes[0].endswith("Products of these types count as those of the nearest one: Q8_0.")


def test_an_idle_card_is_warmed_up_first(card: FoundCard, tmp_path: Path) -> None:
    extent, copies = replace(TINY, warming_seconds=0.1), calls("cuMemcpyAsync")
    made = gpu_probe.with_measured_card(datasheet(card), card, tmp_path, probe.silent, extent, -1.0)
    assert made.card_measured == () and calls("cuMemcpyAsync") > copies + 2


@pytest.mark.parametrize("by_flags", [False, True])
def test_handing_over_either_way(card: FoundCard, tmp_path: Path, by_flags: bool) -> None:
    device = open_card(tmp_path)
    device.hands_over_by_flags = by_flags
    bench, functions = CardBench(device, TINY.pool_bytes, TINY.workspace_bytes), calls("cuLaunchHostFunc")
    assert round_trip_seconds(bench) > 0
    assert (calls("cuLaunchHostFunc") == functions) == by_flags and device.pinned.used > 0
    bench.close()
    device.close()


def test_copies_have_a_latency_and_a_speed() -> None:
    assert gpu_probe._line({size: 1e-5 + size / 2e10 for size in (4096, 65536, 1 << 24)}) == pytest.approx((2e10, 1e-5))
    assert gpu_probe._line({4096: 2e-5, 1 << 20: 1e-5}) == ((1 << 20) / 1e-5, 2e-5)


# --- what is kept -----------------------------------------------------------------------------------------------


@pytest.fixture
def measured(card: FoundCard, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was measured: "cpu", "card"."""
    runs: list[str] = []

    def measure_cpu(name: str, memory: int, threads: int, *_: object) -> object:
        runs.append("cpu")
        return _fake_measure(name, memory, threads)

    def measure_card(machine: HardwareProfile, card: FoundCard, *rest: object) -> HardwareProfile:
        runs.append("card")
        return replace(machine, card_measured=("memory bandwidth",), source="measured")

    monkeypatch.setattr(probe, "measure_cpu", measure_cpu)
    monkeypatch.setattr(gpu_probe, "with_measured_card", measure_card)
    monkeypatch.setattr(store, "find_card", lambda: card)
    return runs


def test_a_card_is_measured_once_and_plans_use_it(
    card: FoundCard, measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store.this_machine(tmp_path, 2, gpus=REPORT)
    assert measured == ["cpu", "card"] and made.gpu is not None and made.source == "measured"
    assert store.this_machine(tmp_path, 2, gpus=REPORT).card_measured == made.card_measured
    assert measured == ["cpu", "card"]
    monkeypatch.setattr(opening, "find_card", lambda: card)
    assert opening.with_device(made, opening.DeviceChoice("cuda")) == made
    other = replace(made, gpu=replace(made.gpu, name="Another"))
    assert opening.with_device(other, opening.DeviceChoice("cuda")).card_measured is None
    assert opening.with_device(made, opening.DeviceChoice("emulated")).gpu == opening.emulated_machine().gpu


def test_a_card_that_became_usable_is_measured_alone(
    card: FoundCard, measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "find_card", lambda: FoundCard(reason="NVRTC was not found."))
    assert store.this_machine(tmp_path, 2, gpus=REPORT).card_measured is None and measured == ["cpu"]
    monkeypatch.setattr(store, "find_card", lambda: card)
    assert store.this_machine(tmp_path, 2, gpus=REPORT).card_measured and measured == ["cpu", "card"]


def test_the_kernels_source_names_the_profile(
    measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.this_machine(tmp_path, 2, gpus=REPORT)
    monkeypatch.setattr(source, "digest_of_all", lambda: "another source")
    store.this_machine(tmp_path, 2, gpus=REPORT)
    assert measured == ["cpu", "card"] * 2
