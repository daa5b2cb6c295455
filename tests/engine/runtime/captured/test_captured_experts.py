"""Experts of captured steps: they come and go without a new capture, and their uses are counted."""

from __future__ import annotations

import numpy as np

from engine.runtime.expert_slots import Promotion
from tests.support.captured_steps import MODELS, PROMPT, TOKENS, Write, by_bank, counted, decode, mixed, near
from tests.support.hybrid_model import Open
from tests.support.native_model import Logits, NativeModel


def test_promotions_need_no_new_capture(tiny_models: Write, open_on_card: Open) -> None:
    shape = MODELS["experts"]
    path = tiny_models(shape)
    reference = NativeModel(path).logits(TOKENS)
    model = open_on_card(path)
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    state, _ = decode(model, 3)

    def go_on() -> None:
        for number, token in enumerate(TOKENS[PROMPT + 3 :]):
            tables = {bank: memory.table for bank, memory in model.executor.residency.banks.items()}
            absent = {bank: int(np.flatnonzero(table.absent)[0]) for bank, table in tables.items()}
            model.executor.promoter.begin([Promotion(bank, e, number % 2) for bank, e in absent.items()])
            model.executor.promoter.finish()
            assert near(model.extend(state, [token]), reference[state.length - 1 : state.length], shape)

    assert counted("cuStreamBeginCapture_v2", go_on) == 0
    assert model.executor.promoter.promoted >= 2 * 5
    state.release()


def test_uses_are_counted(tiny_models: Write, open_on_card: Open) -> None:
    """Of captured steps as of others: every token's experts, in every bank."""
    model = open_on_card(tiny_models(MODELS["experts"]))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    seen = []
    note = model.executor.heat.note
    model.executor.heat.note = lambda uses: (seen.append(by_bank(uses)), note(uses))[1]  # type: ignore[method-assign]
    state, _ = decode(model)
    state.release()
    captured, seen[:] = seen[:], []
    assert model.executor._graphs is not None
    model.executor._graphs.is_refused = True  # type: ignore[attr-defined]
    state, _ = decode(model)
    state.release()
    assert len(captured) == len(seen) and all(
        np.array_equal(a[bank], b[bank]) for a, b in zip(captured, seen, strict=True) for bank in b
    )


def test_a_changed_table_is_not_waited_for(tiny_models: Write, open_on_card: Open) -> None:
    """A replayed step waits once, for its end, whether or not experts have moved; and what they moved to is read."""
    model = open_on_card(tiny_models(MODELS["experts"]))
    model.place(mixed(model))
    model.executor.promoter.is_enabled = False
    state = model.new_state()
    model.extend(state, TOKENS[:PROMPT])

    def step() -> Logits:
        state.truncate(PROMPT)
        return model.extend(state, TOKENS[PROMPT : PROMPT + 1]).copy()

    before = [step() for _ in range(3)][-1]
    plain = counted("cuStreamSynchronize", step)
    for bank in model.executor.residency.banks:
        program = model.executor._sides[True].program
        model.device.set_table(program, bank, model.executor.residency.banks[bank].table.slots)
    assert counted("cuStreamSynchronize", step) == plain == 1
    assert np.array_equal(step(), before)
    state.release()
