"""Parameters reach the engine, are kept per conversation, and can be saved as presets."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from PySide6.QtWidgets import QComboBox, QScrollArea, QStyle, QStyleOptionComboBox

from app.chat.parameters.presets import BUILT_IN, Presets
from app.chat.parameters.table import BY_NAME, PARAMETERS, answering, changed_only
from app.store.records import Status
from engine.messages import FinishReason, GenerationFinished, LoadModel, Overflow, SamplingParams, TokenEvent


def test_every_sampler_option_has_a_parameter_with_its_default():
    assert {field.name for field in fields(SamplingParams)} <= set(BY_NAME)
    assert answering({}).sampling == SamplingParams(repetition_penalty=1.1, penalty_last_n=64)
    assert answering({"repetition_penalty": 1.0}).sampling == SamplingParams()
    assert all(parameter.help.endswith(".") for parameter in PARAMETERS)


def test_values_in_the_engines_terms():
    asked = answering(
        {"temperature": 0, "seed": 7, "max_tokens": 20, "stop": "a\n\nb ", "system_prompt": " Be brief. "}
    )
    assert asked.sampling.temperature == 0.0
    assert asked.sampling.seed == 7
    assert (asked.max_tokens, asked.stop, asked.system_prompt) == (20, ("a", "b "), "Be brief.")
    assert [answering({"reasoning": value}).reasoning for value in ("auto", "on", "off")] == [None, True, False]
    assert answering({"json_schema": '{"type": "integer"}'}).sampling.grammar.startswith("root ::= ws integer ws")


def test_only_changes_are_kept():
    assert changed_only({"temperature": 0.8, "top_k": 7, "unknown": 1}) == {"top_k": 7}


def test_presets_are_kept_and_recognised(tmp_path):
    presets = Presets(tmp_path / "presets.json")
    assert presets.names() == list(BUILT_IN)
    presets.save("Mine", {"temperature": 0.3, "top_k": 40})
    again = Presets(tmp_path / "presets.json")
    assert again["Mine"] == {"temperature": 0.3}
    assert again.name_of({"temperature": 0.3}) == "Mine"
    assert again.name_of({}) == "Balanced"
    assert again.name_of({"temperature": 0.31}) == ""
    again.delete("Mine")
    assert Presets(tmp_path / "presets.json").names() == list(BUILT_IN)


def test_a_damaged_presets_file_is_told(tmp_path):
    (tmp_path / "presets.json").write_text("[1")
    assert "could not be read" in Presets(tmp_path / "presets.json").problem
    Presets(tmp_path / "presets.json").save("mine", {"temperature": 0.1})
    assert (tmp_path / "presets.json.damaged").exists()


def test_nothing_on_the_panel_is_cut_off(app, qtbot):
    app.page.parameters_button.setChecked(True)
    panel = app.page.parameters
    scroll = panel.findChild(QScrollArea)
    qtbot.waitUntil(lambda: scroll.viewport().width() > 200)
    assert scroll.widget().minimumSizeHint().width() <= scroll.viewport().width()
    for box in panel.findChildren(QComboBox):
        option = QStyleOptionComboBox()
        box.initStyleOption(option)
        part = QStyle.SubControl.SC_ComboBoxEditField
        room = box.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, box).width()
        assert room >= box.fontMetrics().horizontalAdvance(box.currentText()), box.accessibleName()


@pytest.mark.parametrize("offered", [True, False])
def test_reasoning_can_be_switched_where_the_template_offers_it(start, offered):
    app = start(lambda engine: setattr(engine, "info", replace(engine.info, has_reasoning_switch=offered)))
    app.page.parameters_button.setChecked(True)
    assert app.page.parameters.rows["reasoning"].isEnabled() is offered


def test_the_panel_changes_what_is_asked_and_each_conversation_has_its_own(app, qtbot):
    app.page.parameters_button.setChecked(True)
    rows = app.page.parameters.rows
    rows["temperature"].control.setValue(0.2)
    rows["system_prompt"].control.setPlainText("You are a mason.")
    qtbot.waitUntil(lambda: "system_prompt" in app.session.parameters)
    app.session.send("Hello")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    request = app.engine.requests()[-1]
    assert request.sampling.temperature == 0.2
    assert (request.messages[0].role, request.messages[0].content) == ("system", "You are a mason.")
    first = app.session.conversation_id
    app.session.new()
    app.session.set_parameters({})
    app.session.send("Other")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    assert app.engine.requests()[-1].sampling == answering({}).sampling
    app.session.open(first)
    qtbot.waitUntil(lambda: app.session.conversation_id == first and bool(app.session.path()))
    assert rows["temperature"].value == pytest.approx(0.2)
    rows["temperature"].reset.click()
    assert app.session.parameters == {"system_prompt": "You are a mason."}


def test_a_schema_that_cannot_be_kept_to_is_said_before_sending(app, qtbot):
    app.session.set_parameters({"json_schema": '{"pattern": "x"}'})
    app.page.composer.set_text("Hello")
    app.page._send("Hello")
    (card,) = app.page.problem_stack.cards
    assert "pattern" in card.problem.cause
    assert app.page.composer.text == "Hello"
    assert app.engine.requests() == []


def test_the_context_ring_shows_what_was_used(app, qtbot):
    assert app.page.meter.isHidden()
    app.session.send("Hello")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    assert not app.page.meter.isHidden()
    assert "22 of 4,096" in app.page.meter.toolTip()


def test_a_preset_holds_prompt_sampling_and_context(tmp_path):
    values = {"system_prompt": "Be brief.", "temperature": 0.3, "context_length": 8192, "overflow": "trim"}
    Presets(tmp_path / "presets.json").save("Mine", values)
    assert Presets(tmp_path / "presets.json")["Mine"] == values


def test_a_conversation_that_asks_for_another_context_offers_to_load_it(app, qtbot):
    app.page.parameters_button.setChecked(True)
    app.page.parameters.rows["context_length"].control.setValue(8192)
    (card,) = app.page.problem_stack.cards
    assert "8,192 tokens" in card.problem.cause and "4,096" in card.problem.cause
    card.problem.actions[0].run()
    load = [command for command in app.engine.commands if isinstance(command, LoadModel)][-1]
    assert load.options.context_length == 8192
    assert app.context.settings["context_length"] == 0  # the others keep theirs
    qtbot.waitUntil(lambda: app.context.models.loading_path is None)
    app.session.new()
    app.page.remedies.offer_its_model()
    assert app.page.problem_stack.cards == []  # less than asked for, where that is all there is, is not offered again


def test_what_to_do_when_the_context_is_full_is_kept_with_the_conversation(app, qtbot):
    app.session.set_parameters({"overflow": "trim"})
    app.session.send("Hello")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    assert app.engine.requests()[-1].overflow is Overflow.TRIM_OLDEST


def test_an_answer_that_fills_the_context_goes_on_once_there_is_room(app, qtbot):
    app.session.send("Are you an author?")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    app.engine.answer = None
    app.session.send("Write a book")
    request = app.engine.requests()[-1]
    app.engine.begin(request)
    app.engine.emit(TokenEvent(request.request_id, "Chapter one"))
    app.engine.emit(GenerationFinished(request.request_id, FinishReason.CONTEXT_FULL, None))
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    problem = app.page.problem_stack.cards[0].problem
    assert "ended here" in problem.cause
    assert problem.actions[0].label == "Leave out the oldest messages"
    problem.actions[0].run()
    again = app.engine.requests()[-1]
    assert (again.answer_prefix, again.overflow) == ("Chapter one", Overflow.TRIM_OLDEST)
    assert len(app.session.path()) == 4
