"""Everything that is known about an answer."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLabel, QVBoxLayout, QWidget

from app.chat.answer_facts import ending_of, engine_name, format_seconds, format_speed
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
    for key, name in (("prefill_speed", tr("Prefill")), ("decode_speed", tr("Decode"))):
        if details.get(key):
            rows.append((name, tr("{speed} tokens/s", speed=format_speed(details[key]))))
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


class AnswerDetails(QDialog):
    def __init__(self, message: Message, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Details of the answer"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        form = QFormLayout()
        form.setHorizontalSpacing(24)
        form.setVerticalSpacing(9)
        for name, value in detail_rows(message):
            label = QLabel(name, self)
            label.setObjectName("detailName")
            words = QLabel(value, self)
            words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            form.addRow(label, words)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 22, 24, 18)
        layout.setSpacing(18)
        layout.addLayout(form)
        layout.addWidget(buttons)
