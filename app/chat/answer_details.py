"""Everything that is known about an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLabel, QVBoxLayout, QWidget

from app.chat.answer_facts import ending_of, engine_name, format_seconds, format_speed, prediction_source
from app.chat.token_times import merged_counts, percentile
from app.store.records import Message
from app.theme.theme import Theme
from app.translation import tr


def detail_rows(message: Message) -> list[tuple[str, str]]:
    """(name, value) of every fact that was recorded."""
    details: dict[str, Any] = message.details
    rows: list[tuple[str, str]] = []
    if model := details.get("model"):
        rows.append((tr("Model"), f"{model} {details.get('quantization', '')}".strip()))
    if engine := details.get("engine"):
        rows.append((tr("Engine"), engine_name(engine)))
    if ending := ending_of(message):
        rows.append((tr("Ended"), ending))
    if "prompt_tokens" in details:
        all_tokens = details["prompt_tokens"]
        new = all_tokens - details.get("reused_tokens", 0)
        rows.append((tr("Prompt"), tr("{new} of {all} tokens were new", new=f"{new:,}", all=f"{all_tokens:,}")))
    if "generated_tokens" in details:
        rows.append((tr("Answer"), tr("{count} tokens", count=f"{details['generated_tokens']:,}")))
    for kind, name in (("prefill", tr("Prefill")), ("decode", tr("Decode"))):
        if speed := details.get(f"{kind}_speed"):
            rows.append((name, _beside(speed, details.get(f"predicted_{kind}"))))
    if source := prediction_source(details):
        rows.append((tr("Prediction"), source))
    if "ttft" in details:
        rows.append((tr("Time to first token"), format_seconds(details["ttft"])))
    for key, name in (("tpot_p50", tr("Time per token, median")), ("tpot_p99", tr("Time per token, 99th percentile"))):
        if key in details:
            rows.append((name, format_seconds(details[key])))
    if "reasoning_seconds" in details:
        rows.append((tr("Thinking"), format_seconds(details["reasoning_seconds"])))
    if "depth" in details:
        rows.append((tr("Context used at the end"), tr("{count} tokens", count=f"{details['depth']:,}")))
    return rows


def conversation_rows(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """(name, value) of what was measured over all answers of a conversation, those of other branches included."""
    answers = [message.details for message in messages if message.role == "assistant"]
    rows = [(tr("Answers"), f"{len(answers):,}")]
    tokens = sum(details.get("generated_tokens", 0) for details in answers)
    rows.append((tr("Written"), tr("{count} tokens", count=f"{tokens:,}")))
    if waits := sorted(details["ttft"] for details in answers if "ttft" in details):
        middle, longest = waits[len(waits) // 2], waits[-1]
        words = tr("{middle}, at most {longest}", middle=format_seconds(middle), longest=format_seconds(longest))
        rows.append((tr("Time to first token, median"), words))
    if steps := merged_counts(details.get("tpot_counts", {}) for details in answers):
        rows.append((tr("Time per token, median"), format_seconds(percentile(steps, 0.5))))
        rows.append((tr("Time per token, 99th percentile"), format_seconds(percentile(steps, 0.99))))
    return rows


def _beside(speed: float, predicted: float | None) -> str:
    if predicted is None:
        return tr("{speed} tok/s", speed=format_speed(speed))
    return tr("{speed} tok/s, {predicted} predicted", speed=format_speed(speed), predicted=format_speed(predicted))


class AnswerDetails(QDialog):
    """`conversation`: all of its messages."""

    def __init__(self, message: Message, conversation: Iterable[Message], theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Details of the answer"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        form = QFormLayout()
        form.setHorizontalSpacing(24)
        form.setVerticalSpacing(9)
        self._add_rows(form, detail_rows(message))
        heading = QLabel(tr("The whole conversation"), self)
        heading.setObjectName("detailHeading")
        heading.setIndent(0)
        form.addRow(heading)
        self._add_rows(form, conversation_rows(conversation))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 22, 24, 18)
        layout.setSpacing(18)
        layout.addLayout(form)
        layout.addWidget(buttons)

    def _add_rows(self, form: QFormLayout, rows: list[tuple[str, str]]) -> None:
        for name, value in rows:
            label = QLabel(name, self)
            label.setObjectName("detailName")
            words = QLabel(value, self)
            words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            form.addRow(label, words)
