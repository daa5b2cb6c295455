"""Profiles: the catalogue's names and rates, what is stored and when it is measured again, and the probe itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from engine.gguf import QuantType
from engine.placement.costs import Workload, decode_seconds, prefill_seconds, product_seconds, weights_rate
from engine.placement.hardware import catalogue, probe, store
from engine.placement.hardware.load import OthersLoad
from engine.placement.hardware.profile import (
    ATTENTION,
    EXPERTS,
    NEAREST_TYPE,
    PRODUCT,
    SCORE,
    DeviceProfile,
    HardwareProfile,
    KernelRates,
    Points,
)
from engine.placement.hardware.small_model import SmallModel, with_token_costs
from engine.placement.hardware.timing import Bench
from engine.placement.items import ItemKind, Matrix, PlacementItem
from engine.placement.state import StateKind, StateShape
from engine.telemetry.gpus import GPU, GPUReport
from kernels import _cpu

GiB = 1 << 30
NONE = GPUReport((), "", "No NVIDIA driver is installed.")


def _card(name: str, gib: float, index: int = 0) -> GPU:
    return GPU(index, name, int(gib * GiB))


@pytest.mark.parametrize("gpu", catalogue.gpus(), ids=lambda g: g.name)
def test_every_gpu_has_a_source_and_plausible_rates(gpu: catalogue.CatalogueGPU) -> None:
    assert gpu.source
    assert 2 <= gpu.memory_gib <= 200 and 100 <= gpu.bandwidth_gb <= 8000
    assert catalogue.find_gpu(gpu.name) is gpu
    profile = catalogue.gpu_profile(gpu)
    assert profile.kernels.rate("Q4_K", 512) > profile.kernels.rate("Q4_K", 1)


@pytest.mark.parametrize(
    ("name", "tflops", "bandwidth"),
    [("RTX 4090", 165.2, 1008), ("RTX 3060 12GB", 25.5, 360), ("RTX A6000", 154.8, 768), ("A100 80GB", 312, 1935)],
)
def test_rates_follow_from_clocks_and_widths(name: str, tflops: float, bandwidth: float) -> None:
    gpu = catalogue.find_gpu(name)
    assert gpu.fp16_tensor_tflops == pytest.approx(tflops, rel=1e-3)
    assert gpu.bandwidth_gb == pytest.approx(bandwidth, rel=1e-3)


@pytest.mark.parametrize(
    ("entry", "reported", "same"),
    [
        ("RTX 3060 12GB", "NVIDIA GeForce RTX 3060", True),
        ("RTX 3060 Laptop 6GB", "NVIDIA GeForce RTX 3060 Laptop GPU", True),
        ("RTX 3060 12GB", "NVIDIA GeForce RTX 3060 Laptop GPU", False),
        ("RTX 3060 12GB", "NVIDIA GeForce RTX 3060 Ti", False),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation", True),
        ("RTX PRO 6000 Blackwell", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", True),
        ("A100 80GB", "NVIDIA A100 80GB PCIe", True),
        ("H100 PCIe", "NVIDIA H100 80GB HBM3", False),
    ],
)
def test_a_card_is_known_by_its_drivers_name(entry: str, reported: str, same: bool) -> None:
    assert catalogue.same_family(entry, reported) is same


def test_a_desktop_with_one_die_reads_what_its_link_carries() -> None:
    one_die, two_dies = (catalogue.machine(name).cpu.bandwidth for name in ("Ryzen 7 7700X", "Ryzen 9 7950X"))
    assert one_die == 64e9 and two_dies == pytest.approx(83.2e9 * catalogue.READ_SHARE)


@pytest.mark.parametrize("cpu", catalogue.cpus(), ids=lambda c: c.name)
def test_every_cpu_has_a_source_and_plausible_rates(cpu: catalogue.CatalogueCPU) -> None:
    assert cpu.source
    assert 20 <= cpu.bandwidth_gb <= 700 and 2 <= cpu.cores <= 128
    assert catalogue.find_cpu(cpu.name) is cpu


@pytest.mark.parametrize(
    ("asked", "found"),
    [("rtx4090", "RTX 4090"), ("4090", "RTX 4090"), ("RTX 3060 laptop", "RTX 3060 Laptop 6GB"), ("h200", "H200")],
)
def test_names_are_found_loosely(asked: str, found: str) -> None:
    assert catalogue.find_gpu(asked).name == found


def test_an_ambiguous_or_unknown_name_lists_what_is_close() -> None:
    with pytest.raises(catalogue.UnknownDeviceError, match="RTX 3080 10GB, RTX 3080 12GB"):
        catalogue.find_gpu("3080")
    with pytest.raises(catalogue.UnknownDeviceError, match="Did you mean"):
        catalogue.find_cpu("Ryzen 7 5805X")


def test_rates_are_interpolated_between_batches() -> None:
    rates = KernelRates({"*": ((1, 1e9), (64, 64e9)), "F16": ((1, 5e9),)})
    assert rates.rate("Q4_K", 1) == 1e9
    assert rates.rate("Q4_K", 8) == pytest.approx(8e9)
    assert rates.rate("Q4_K", 4096) == 64e9
    assert rates.rate("F16", 64) == 5e9


def test_a_type_that_was_not_measured_takes_the_nearest_ones_rate() -> None:
    points = {"*": ((1, 1e9),), "Q8_0": ((1, 2e9),), "IQ4_XS": ((1, 3e9),)}
    assert [KernelRates(points).rate(name, 1) for name in ("IQ4_XS", "IQ4_NL", "MXFP4", "Q4_K")] == [3e9, 2e9, 1e9, 1e9]
    assert set(NEAREST_TYPE) | set(NEAREST_TYPE.values()) <= {kind.name for kind in QuantType}


# --- what is kept -----------------------------------------------------------------------------------------------


def _fake_measure(name: str, memory: int, threads: int, *rest: object) -> DeviceProfile:
    made = catalogue.cpu_profile(catalogue.find_cpu("5800X"), memory)
    return replace(
        made,
        name=name,
        threads=threads,
        stalls={PRODUCT: ((4, 2.0),)},
        start_seconds=5e-6,
        pace=((1, 2e10), (16, 1e11)),
    )


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Thread counts for which the probe was run."""
    runs: list[int] = []

    def measure(name: str, memory: int, threads: int, *rest: object) -> DeviceProfile:
        runs.append(threads)
        return _fake_measure(name, memory, threads)

    monkeypatch.setattr(probe, "measure_cpu", measure)
    monkeypatch.setattr(OthersLoad, "share", lambda self: 0.0)
    monkeypatch.setattr(probe, "disk_read_bandwidth", lambda folder: 1e9)
    return runs


def test_a_machine_whose_profile_cannot_be_kept(tmp_path: Path, measured: list[int]) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert store.this_machine(tmp_path / "file" / "hardware", 2, gpus=NONE).cpu.memory_bytes
    assert measured == [2]


def test_a_machine_is_measured_once_and_again_on_request(tmp_path: Path, measured: list[int]) -> None:
    first = store.this_machine(tmp_path, 2, gpus=NONE)
    assert store.this_machine(tmp_path, 2, gpus=NONE) == first
    assert measured == [2]
    store.this_machine(tmp_path, 2, measure_again=True, gpus=NONE)
    assert measured == [2, 2]


def test_what_would_change_the_rates_leads_to_a_new_measurement(
    tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = GPUReport((_card("NVIDIA GeForce RTX 4090", 23.99),), "570.1", "")
    store.this_machine(tmp_path, 2, gpus=NONE)
    store.this_machine(tmp_path, 1, gpus=NONE)
    store.this_machine(tmp_path, 2, "scalar", gpus=NONE)
    store.this_machine(tmp_path, 2, gpus=card)
    store.this_machine(tmp_path, 2, gpus=replace(card, driver="580.2"))
    monkeypatch.setattr(store, "kernels_digest", lambda: "another build")
    store.this_machine(tmp_path, 2, gpus=card)
    assert len(measured) == 6


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"cpu": 3}', "\xff"])
def test_a_damaged_profile_is_measured_again(content: str, tmp_path: Path, measured: list[int]) -> None:
    kept = store.this_machine(tmp_path, 2, gpus=NONE)
    (path,) = tmp_path.glob("*.json")
    path.write_text(content, "latin-1")
    assert store.this_machine(tmp_path, 2, gpus=NONE) == kept
    assert len(measured) == 2


@pytest.mark.parametrize(("place", "name"), [(("element_rates",), "rope"), (("kernels", "points"), "*")])
def test_a_profile_that_lacks_what_prices_need_is_measured_again(
    place: tuple[str, ...], name: str, tmp_path: Path, measured: list[int]
) -> None:
    kept = store.this_machine(tmp_path, 2, gpus=NONE)
    (path,) = tmp_path.glob("*.json")
    content = json.loads(path.read_text("utf-8"))
    del reduce(getitem, place, content["cpu"])[name]
    path.write_text(json.dumps(content), "utf-8")
    assert store.this_machine(tmp_path, 2, gpus=NONE) == kept
    assert len(measured) == 2


@pytest.mark.parametrize(("name", "number"), [("bandwidth", 0), ("step_seconds", None), ("op_seconds", float("nan"))])
def test_a_profile_with_numbers_that_price_nothing_is_measured_again(
    name: str, number: float | None, tmp_path: Path, measured: list[int]
) -> None:
    kept = store.this_machine(tmp_path, 2, gpus=NONE)
    (path,) = tmp_path.glob("*.json")
    content = json.loads(path.read_text("utf-8"))
    content["cpu"][name] = number
    path.write_text(json.dumps(content), "utf-8")
    assert store.this_machine(tmp_path, 2, gpus=NONE) == kept
    assert len(measured) == 2


def test_of_two_gpus_the_larger_is_used_and_it_is_said(tmp_path: Path, measured: list[int]) -> None:
    cards = GPUReport((_card("NVIDIA GeForce RTX 3060", 12), _card("NVIDIA GeForce RTX 4090", 24, 1)), "570.1", "")
    made = store.this_machine(tmp_path, 2, gpus=cards)
    assert made.gpu is not None and made.gpu.name == "NVIDIA GeForce RTX 4090"
    assert "NVIDIA GeForce RTX 3060 stays idle" in made.notes[0]
    assert made.source == "mixed"


def test_dedicated_memory_is_what_the_driver_reports_not_what_the_catalogue_says() -> None:
    card = GPUReport((_card("NVIDIA RTX A2000 12GB", 11.6),), "570.1", "")
    made = store.with_gpu(HardwareProfile(_fake_measure("x", 64 * GiB, 2)), card)
    assert made.gpu is not None and made.gpu.memory_bytes == int(11.6 * GiB)


def test_an_unknown_card_is_left_out_with_a_note() -> None:
    made = store.with_gpu(HardwareProfile(_fake_measure("x", GiB, 2)), GPUReport((_card("GeForce 9999", 64),), "", ""))
    assert made.gpu is None and "not in the catalogue" in made.notes[0]


def test_cards_without_a_memory_reading_are_passed_over() -> None:
    mig = GPUReport((GPU(0, "NVIDIA H200", None),), "", "")
    assert store.with_gpu(HardwareProfile(_fake_measure("x", GiB, 2)), mig).gpu is None


# --- the probe --------------------------------------------------------------------------------------------------


def test_the_probe_measures_every_type_and_reports_progress() -> None:

    seen: list[float] = []
    made = probe.measure_cpu("this", GiB, 1, progress=lambda fraction, stage: seen.append(fraction), seconds=600.0)
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] == 1
    names = {name for name, _, _ in _cpu.QUANT_TYPES.values()}
    assert names | {"*", "attention"} == set(made.kernels.points)
    assert made.bandwidth > 1e8 and 0 < made.op_seconds < 1e-2 and min(made.element_rates.values()) > 1e6
    assert 0 < made.scattered_share <= 1 and min(rate for _, rate in made.pace) > 1e8
    assert set(made.stalls) == {PRODUCT, ATTENTION, EXPERTS} and 0 <= made.start_seconds < 1e-2
    assert all(share > 0 for shares in made.stalls.values() for _, share in shares)
    assert set(made.row_stalls) == names | {"*"} and min(made.row_stalls.values()) >= 0
    assert 0 <= made.row_seconds < 1e-4 and 0 < made.step_seconds < 1e-2
    assert all(rate > 1e6 for rates in made.kernels.points.values() for _, rate in rates)


def test_without_time_all_types_count_as_the_most_common_one() -> None:
    made = probe.measure_cpu("this", GiB, 1, seconds=0.0)
    assert set(made.kernels.points) == {"Q4_K", "*", "attention"} and made.stalls == {} and made.scattered_share == 1
    assert made.kernels.rate("Q8_0", 16) == made.kernels.rate("Q4_K", 16) > 1e6


class _FakeBench:
    """Tells of every moment that something took as long as `seconds` says."""

    tier = "auto"

    def __init__(self, cpu: DeviceProfile, memory_bytes: int, seconds: Callable[[Callable[[], float]], float]) -> None:
        self.pool = _cpu.ThreadPool(1)
        self.memory = np.zeros(memory_bytes, np.uint8)
        self._cpu, self._seconds = cpu, seconds

    def in_place(self, timed: Callable[[], float], seconds: float) -> Iterator[tuple[float, Points, float]]:
        yield self._seconds(timed), self._cpu.pace, self._cpu.bandwidth


def test_what_tokens_take_beyond_other_rates_goes_to_inputs_and_to_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = _fake_measure("x", GiB, 1)
    true = replace(cpu, start_seconds=5e-6, step_seconds=2e-4)
    monkeypatch.setattr(SmallModel, "token", lambda model: model.predicted(true))
    found = with_token_costs(cast(Bench, _FakeBench(cpu, 16 << 20, lambda timed: timed())), cpu)
    assert (found.start_seconds, found.step_seconds) == (pytest.approx(5e-6), pytest.approx(2e-4))
    assert replace(found, start_seconds=cpu.start_seconds, step_seconds=cpu.step_seconds) == cpu


def test_a_token_of_the_probes_small_model_runs() -> None:
    cpu = _fake_measure("x", GiB, 1)
    checks: list[int] = []
    model = SmallModel(cast(Bench, _FakeBench(cpu, 16 << 20, lambda timed: 0.0)), 2, lambda: checks.append(1))
    assert model.token() > 0 and checks == [1]
    assert [item.kind for item in model.items].count(ItemKind.FEED_FORWARD) == 2 and model.inputs == 2 * 4 + 1


def test_experts_stall_by_what_they_take_beyond_their_products() -> None:
    cpu = replace(_fake_measure("x", GiB, 1), bandwidth=1e10)
    size = 8 * 3 * 768 * 2048 * 144 // 256  # eight experts of three matrices in Q4_K
    reading = size / cpu.bandwidth
    less, more = (
        probe._expert_stall(cast(Bench, _FakeBench(cpu, 4 * size, seconds)), cpu)
        for seconds in (lambda timed: 1.0, lambda timed: 1.0 + 2 * reading)
    )
    assert [tokens for tokens, _ in less] == [tokens for tokens, _ in more]
    assert more[0][1] - less[0][1] == pytest.approx(2.0)


def test_types_that_no_time_was_left_for_are_measured_when_a_model_has_them(
    tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "read_gpus", lambda: NONE)
    assert not store.learn_types(tmp_path, 2, ["MXFP4"])  # nothing is known of this machine
    kept = store.this_machine(tmp_path, 2)
    monkeypatch.setattr(probe, "TYPES_SECONDS", 600.0)
    assert store.learn_types(tmp_path, 2, ["MXFP4", "Q4_K", "IQ4_XS", "of the future"])
    learnt = store.known_machine(tmp_path, 2)
    assert learnt is not None
    new = set(learnt.cpu.kernels.points) - set(kept.cpu.kernels.points)
    assert new == {"MXFP4", "Q4_K", "IQ4_XS"} - set(kept.cpu.kernels.points) >= {"MXFP4", "IQ4_XS"}
    assert all(rate > 1e6 for name in new for _, rate in learnt.cpu.kernels.points[name])
    assert set(learnt.cpu.row_stalls) == new and min(learnt.cpu.row_stalls.values()) >= 0
    assert replace(learnt.cpu, kernels=kept.cpu.kernels, row_stalls=kept.cpu.row_stalls) == kept.cpu
    assert not store.learn_types(tmp_path, 2, ["MXFP4", "Q4_K", "IQ4_XS", "of the future"])
    assert measured == [2]
    assert store.this_machine(tmp_path, 2, types=["Q5_K"]).cpu.kernels.points["Q5_K"]
    assert "Q5_K" in store.this_machine(tmp_path, 2).cpu.kernels.points and measured == [2]


def test_what_is_learnt_later_is_of_the_machine_as_it_was() -> None:
    slow = replace(
        _fake_measure("x", GiB, 1), pace=((1, 1e7), (16, 1e7))
    )  # a thousandth of any machine's that has these kernels
    found = probe.with_types(slow, [QuantType.Q8_0]).kernels
    assert found.rate("Q8_0", 16) < 1e9


def test_bandwidth_is_measured_for_the_usual_thread_counts() -> None:
    assert sorted(probe.bandwidth_per_threads(3, np.ones(1 << 20, np.uint8))) == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot forget cached pages")
def test_disk_bandwidth(tmp_path: Path) -> None:
    assert probe.disk_read_bandwidth(tmp_path) > 1e6
    assert probe.disk_read_bandwidth(tmp_path / "missing") == 0.0


def test_fewer_threads_compute_in_proportion_and_read_as_measured() -> None:
    full = replace(catalogue.machine("Ryzen 7 5800X"), gpu=None)
    full = replace(full, cpu=replace(full.cpu, threads=8, bandwidth_by_threads={1: 2e10, 4: 3e10, 8: 4e10}))
    half = full.with_threads(6)
    assert half.cpu.bandwidth == 3e10
    assert half.cpu.kernels.rate("Q4_K", 64) == pytest.approx(full.cpu.kernels.rate("Q4_K", 64) * 0.75)
    assert full.with_threads(8) is full


def test_load_of_others_is_stored_with_what_was_measured_beside_it(
    tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OthersLoad, "share", lambda self: 0.4)
    assert store.this_machine(tmp_path, 2, gpus=NONE).others_load == 0.4
    kept = store.known_machine(tmp_path, 2, gpus=NONE)
    assert kept is not None and kept.others_load == 0.4


def test_load_of_others_is_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    # seconds on the clock, of all processors, of this process
    moments = iter([(0.0, 100.0, 10.0), (2.0, 103.0, 12.0), (0.0, 0.0, 0.0), (1.0, 0.5, 1.0)])
    monkeypatch.setattr(OthersLoad, "_now", staticmethod(lambda: next(moments)))
    monkeypatch.setattr("psutil.cpu_count", lambda: 2)
    assert OthersLoad().share() == pytest.approx(0.25)  # one second of two processors' two
    assert OthersLoad().share() == 0.0  # clocks of different grain


def test_a_second_look_sees_rates_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = _fake_measure("x", 64 * GiB, 1)

    def looks(bandwidth: float, rate: float) -> bool:
        monkeypatch.setattr(probe, "read_bandwidth", lambda _threads: cpu.bandwidth * bandwidth)
        monkeypatch.setattr(probe.Pace, "now", lambda _: tuple((n, seen * rate) for n, seen in cpu.pace))
        return probe.is_outdated(cpu)

    assert not looks(1.0, 1.0)
    assert not looks(1.5, 1.2)  # memory that has two speeds
    assert looks(3.0, 1.0)
    assert looks(1.0, 3.0)
    assert looks(1.0, 0.5)


def test_a_slower_cpu_computes_slower_and_reads_as_before() -> None:
    machine = HardwareProfile(_fake_measure("x", 64 * GiB, 8))
    half = machine.with_pace(((1, 1e10), (16, 5e10))).cpu
    assert half.kernels.rate("Q6_K", 1) == pytest.approx(machine.cpu.kernels.rate("Q6_K", 1) / 2)
    assert half.op_seconds == pytest.approx(2 * machine.cpu.op_seconds)
    assert half.bandwidth == machine.cpu.bandwidth
    assert machine.with_pace(()) is machine


def test_panels_may_be_slowed_more_than_rows() -> None:
    machine = HardwareProfile(_fake_measure("x", 64 * GiB, 8))
    shared = machine.with_pace(((1, 2e10), (16, 5e10))).cpu  # another program on the same core
    assert shared.kernels.rate("Q6_K", 1) == pytest.approx(machine.cpu.kernels.rate("Q6_K", 1))
    assert shared.kernels.rate("Q6_K", 128) == pytest.approx(machine.cpu.kernels.rate("Q6_K", 128) / 2)
    assert shared.op_seconds == pytest.approx(machine.cpu.op_seconds)


def test_reading_hides_behind_computing_but_for_what_stalls() -> None:
    stalling = _fake_measure("x", 64 * GiB, 8)
    assert replace(stalling, stalls={}).seconds(PRODUCT, 4, 3.0, 2.0) == 3.0
    assert stalling.seconds(PRODUCT, 4, 1.0, 2.0) == stalling.seconds(PRODUCT, 512, 1.0, 2.0) == 4.0
    attending = replace(stalling, stalls={ATTENTION: ((1, 1.0), (4, 0.5))})
    assert [attending.seconds(ATTENTION, rows, 2.0, 3.0) for rows in (1, 4, 16)] == [5.0, 4.0, 4.0]


def test_products_from_rows_take_longer_by_their_rows_and_by_what_stalls_their_type() -> None:
    device = replace(_fake_measure("x", 64 * GiB, 8), row_stalls={"*": 0.5, "Q8_0": 1.0}, row_seconds=0.25)
    assert device.seconds_from_rows("Q4_K", 0, 3.0, 1.0) == 3.0  # computing hides behind reading
    assert device.seconds_from_rows("Q4_K", 4, 3.0, 1.0) == 3.5
    assert device.seconds_from_rows("Q8_0", 4, 3.0, 1.0) == device.seconds_from_rows("IQ4_XS", 4, 3.0, 1.0) == 5.0
    assert replace(device, row_stalls={}).seconds_from_rows("Q8_0", 4, 3.0, 3.0) == 4.0


def test_products_side_by_side_start_once_and_a_step_with_its_embedding() -> None:
    device = replace(_fake_measure("x", 64 * GiB, 8), start_seconds=0.5, step_seconds=2.0)
    plain = replace(device, start_seconds=0.0, step_seconds=0.0)
    matrices = (Matrix("Q4_K", 8, 256, 1152), Matrix("Q4_K", 8, 256, 1152), Matrix("Q4_K", 256, 8, 1152))
    block = PlacementItem(ItemKind.FEED_FORWARD, 0, 3456, matrices, ops=2, inputs=2)
    embedding = PlacementItem(ItemKind.EMBEDDING, -1, 0, (), ops=1)
    few, many = Workload(prompt=3), Workload(prompt=64)
    for item, work, more in ((block, few, 1.0), (embedding, few, 2.0), (embedding, many, 2.0), (block, many, 0.0)):
        assert prefill_seconds(item, device, work) - prefill_seconds(item, plain, work) == pytest.approx(more)
    for item, more in ((block, 1.0), (embedding, 2.0)):
        assert decode_seconds(item, device, few) - decode_seconds(item, plain, few) == pytest.approx(more)


def test_query_heads_that_share_a_key_share_what_stalls_attention() -> None:
    device = replace(_fake_measure("x", 64 * GiB, 8), stalls={ATTENTION: ((1, 1.0), (4, 0.5))})
    work = Workload(depth=1000)
    state = StateShape(StateKind.FULL, heads=8, kv_heads=8, key_dim=64, value_dim=64)
    alone, shared = (
        decode_seconds(PlacementItem(ItemKind.ATTENTION, 0, 0, (), replace(state, kv_heads=heads)), device, work)
        for heads in (8, 2)
    )
    reading = [s.read_bytes(1000) / device.bandwidth for s in (state, replace(state, kv_heads=2))]
    computing = [state.macs(1000) / device.kernels.rate(ATTENTION, rows) for rows in (1, 4)]
    scores = state.scores(1000) / device.element_rates[SCORE]
    assert alone == pytest.approx(computing[0] + scores + reading[0])
    assert shared == pytest.approx(max(reading[1], computing[1] + scores + 0.5 * reading[1]))


@pytest.mark.parametrize(
    ("name", "tier", "cores", "expected"),
    [
        ("AMD EPYC", "avx2", 2, (2, "avx2", 34.1)),  # not the guest with AVX-512
        ("AMD EPYC", "avx512_vnni", 2, (2, "avx512_vnni", 38.4)),
        ("AMD EPYC", "avx512", 10, (10, "avx512", 51.2)),  # of which there is no entry
        ("AMD EPYC", "scalar", 4, (4, "scalar", 34.1)),
        ("AMD Ryzen 9 5950X 16-Core Processor", "avx2", 16, (16, "avx2", 51.2)),
        ("AMD Ryzen 9 5950X 16-Core Processor", "scalar", 16, (16, "scalar", 51.2)),  # which a hypervisor hides AVX2 of
        ("AMD EPYC 7763 64-Core Processor", "avx2", 2, (2, "avx2", 34.1)),  # a guest that has two of them
    ],
)
def test_an_unmeasured_machine_is_like_one_of_its_tier(
    name: str, tier: str, cores: int, expected: tuple[int, str, float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store, "cpu_name", lambda: name)
    monkeypatch.setattr(store._cpu, "best_tier", lambda: tier)
    monkeypatch.setattr(store.psutil, "cpu_count", lambda logical=True: cores)
    similar = store.similar_cpu()
    assert (similar.cores, similar.isa, round(similar.bandwidth_gb, 1)) == expected
    profile, measured = store.own_profile(tmp_path, 1)
    assert (profile.cpu.name, profile.source, measured) == (name, "datasheet", False)


def test_without_avx2_arithmetic_and_not_reading_limits_decode() -> None:
    cpu = catalogue.find_cpu("Ryzen 7 5800X")
    with_avx2, without = (catalogue.cpu_profile(replace(cpu, isa=isa)) for isa in ("avx2", "scalar"))
    matrix = Matrix("Q4_K", 4096, 4096, 4096 * 4096 * 9 // 16)
    assert product_seconds(matrix, with_avx2) == pytest.approx(matrix.bytes / with_avx2.bandwidth)
    assert product_seconds(matrix, without) > 10 * product_seconds(matrix, with_avx2)
    assert weights_rate(with_avx2) == pytest.approx(with_avx2.bandwidth)
    assert weights_rate(without) < with_avx2.bandwidth / 10
