"""Every answer says what was predicted for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.chat.answer_facts import summary, tooltip
from app.placement.answer_prediction import Answered, predicted_details
from engine.placement.costs import Workload
from engine.placement.hardware.catalogue import machine
from engine.placement.planner import Budget, Planner
from engine.placement.rivals import Rivals
from engine.telemetry.residency import BankResidency, ItemResidency, ResidencySnapshot
from tests.support.scripted_engine import model_info
from tests.support.shapes import published_shape

SHAPE = "qwen3-30b-a3b-q4_k_m"
GiB = 1 << 30


@pytest.fixture
def predicting(app):
    controller = app.context.placement
    controller.read_shape = lambda _path: published_shape(SHAPE)
    controller.read_machine = lambda: (machine("Ryzen 7 7700X", None, 64 * GiB), True)
    return app


def answer(app, qtbot):
    app.session.send("Hello")
    qtbot.waitUntil(lambda: "reason" in app.session.path()[-1].details)
    return app.session.path()[-1]


def test_predicted_stands_beside_measured_and_is_kept(predicting, qtbot):
    message = answer(predicting, qtbot)
    qtbot.waitUntil(lambda: "predicted_decode" in message.details)
    assert "predicted)" in summary(message)
    assert "measured on this machine" in tooltip(message)
    stored = []
    predicting.context.store.call(lambda store: store.messages(message.conversation_id), stored.extend)
    qtbot.waitUntil(lambda: bool(stored))
    assert stored[-1].details["predicted_decode"] == message.details["predicted_decode"]


def test_an_answer_deleted_meanwhile_stays_deleted(predicting, qtbot):
    message = answer(predicting, qtbot)
    qtbot.waitUntil(lambda: "predicted_decode" in message.details)
    predicting.session.delete(message.id)
    predicting.session.add_details(message, {"predicted_decode": 1.0})
    stored = []
    predicting.context.store.call(lambda store: store.messages(message.conversation_id), stored.extend)
    qtbot.waitUntil(lambda: bool(stored))
    assert [found.role for found in stored] == ["user"]


def test_the_compatibility_engine_is_simulated_and_it_is_said(start, qtbot):
    def prepare(engine):
        engine.info = replace(engine.info, engine="compatibility")

    app = start(prepare)
    app.context.placement.read_shape = lambda _path: published_shape(SHAPE)
    app.context.placement.read_machine = lambda: (machine("Ryzen 7 7700X", "RTX 4070", 64 * GiB), True)
    message = answer(app, qtbot)
    qtbot.waitUntil(lambda: "predicted_decode" in message.details)
    assert "simulated)" in summary(message)
    assert "Simulated for the compatibility engine" in tooltip(message)


def test_the_compatibility_engine_is_predicted_as_the_rival_without_gpu_layers():
    shape, hardware = published_shape(SHAPE), machine("Ryzen 7 7700X", None, 64 * GiB)
    info = replace(cpu_info(hardware.cpu.threads), engine="compatibility")
    work = Workload(context=1025, prompt=512, depth=1024)
    rival = Rivals(shape, hardware, work, Budget(0)).whole_layers(layers=0)
    found = predicted_details(shape, hardware, True, ANSWERED, info, None)
    assert found["predicted_decode"] == pytest.approx(rival.speeds.decode)
    assert found["predicted_prefill"] == pytest.approx(rival.speeds.prefill)
    beside_a_card = machine("Ryzen 7 7700X", "RTX 4070", 64 * GiB)
    assert predicted_details(shape, beside_a_card, True, ANSWERED, info, None) == found


def test_a_model_that_cannot_be_read_costs_the_prediction_alone(app, qtbot):
    """The file of the scripted model holds a magic number and nothing else."""
    message = answer(app, qtbot)
    qtbot.wait(50)
    assert "tok/s" in summary(message)
    assert "predicted" not in summary(message)


ANSWERED = Answered(new=512, reused=0, depth=1024)


def cpu_info(threads: int = 8):
    return replace(model_info(), threads=threads)


def test_without_a_device_it_is_the_plan_without_a_budget():
    shape, hardware = published_shape(SHAPE), machine("Ryzen 7 7700X", None, 64 * GiB)
    hardware = replace(hardware, cpu=replace(hardware.cpu, threads=8))
    plan = Planner(shape, hardware, Workload(context=1025, prompt=512, depth=1024)).plan(Budget(0))
    found = predicted_details(shape, hardware, True, ANSWERED, cpu_info(), None)
    assert found["predicted_decode"] == pytest.approx(plan.predicted.decode)
    assert found["predicted_prefill"] == pytest.approx(plan.predicted.prefill)
    assert found["predicted_from"] == "measured"


def test_keys_and_values_in_8_bits_are_read_sooner():
    shape, hardware = published_shape(SHAPE), machine("Ryzen 7 7700X", None, 64 * GiB)
    deep = Answered(new=512, reused=0, depth=32768)
    speeds = [
        predicted_details(shape, hardware, True, deep, replace(cpu_info(), kv_type=kind), None)["predicted_decode"]
        for kind in ("f16", "q8_0")
    ]
    assert speeds[1] > 1.1 * speeds[0]


def residency_of(plan) -> ResidencySnapshot:
    items = tuple(
        ItemResidency(p.item.key, p.item.kind.value, p.item.layer, p.device.value == "gpu", p.item.bytes, 0, "")
        for p in plan.items
    )
    banks = tuple(
        BankResidency(e.bank.key, e.bank.layer, e.bank.count, e.bank.used, e.slots, e.bank.expert_bytes, (), (), "")
        for e in plan.experts
    )
    return ResidencySnapshot("RTX 4070", 0, 0, items, banks)


def test_where_the_model_lies_is_what_counts():
    shape, hardware = published_shape(SHAPE), machine("Ryzen 7 7700X", "RTX 4070", 64 * GiB)
    work = Workload(context=1025, prompt=512, depth=1024)
    plan = Planner(shape, hardware, work).plan(Budget(6 * GiB))
    info = replace(cpu_info(hardware.cpu.threads), device="RTX 4070")
    found = predicted_details(shape, hardware, True, ANSWERED, info, residency_of(plan))
    assert found["predicted_decode"] == pytest.approx(plan.predicted.decode)
    assert found["predicted_from"] == "mixed"


def test_the_emulated_device_is_no_measurement():
    shape, hardware = published_shape(SHAPE), machine("Ryzen 7 7700X", None, 64 * GiB)
    info = replace(cpu_info(), device="emulated (fast kernels)")
    assert predicted_details(shape, hardware, True, ANSWERED, info, None)["predicted_from"] == "emulated"


def test_tokens_that_are_in_the_cache_make_the_prompt_shorter_but_deeper():
    shape, hardware = published_shape(SHAPE), machine("Ryzen 7 7700X", None, 64 * GiB)
    fresh, behind = (
        predicted_details(shape, hardware, True, replace(ANSWERED, reused=reused), cpu_info(), None)
        for reused in (0, 30_000)
    )
    assert behind["predicted_prefill"] < fresh["predicted_prefill"]
    assert behind["predicted_decode"] == fresh["predicted_decode"]
