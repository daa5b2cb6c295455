"""Large numbers with small captions: what a budget is predicted to give, and what was measured."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

_UNIT = 5  # pixels between a number and its unit


class Figure(QWidget):
    """Lays out its words itself: a label in a layout would lay the whole page out anew whenever its words change, and
    these change with every move of the slider."""

    def __init__(self, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.number = QLabel("–", self)
        self.number.setObjectName("figure")
        self.unit = QLabel("", self)
        self.unit.setObjectName("figureUnit")
        self.caption = QLabel(caption, self)
        self.caption.setObjectName("figureCaption")
        self.note = QLabel("", self)
        self.note.setObjectName("figureCaption")
        self.note.setWordWrap(True)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_number(self, number: str, unit: str = "", note: str = "") -> None:
        if (number, unit, note) == (self.number.text(), self.unit.text(), self.note.text()):
            return
        height = self.heightForWidth(self.width())
        for label, words in ((self.number, number), (self.unit, unit), (self.note, note)):
            if label.text() != words:
                label.setText(words)
        self.setAccessibleName(f"{self.caption.text()}: {number} {unit} {note}".strip())
        if self.heightForWidth(self.width()) != height:
            self.updateGeometry()
        self._arrange()

    def show_note(self, note: str) -> None:
        self.show_number(self.number.text(), self.unit.text(), note)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        note = self.note.heightForWidth(width) if self.note.text() else 0
        return self._note_top + max(0, note)

    def sizeHint(self) -> QSize:
        wide = max(self.caption.sizeHint().width(), self.number.sizeHint().width() + self.unit.sizeHint().width())
        return QSize(wide + _UNIT, self.heightForWidth(max(wide, self.width())))

    def minimumSizeHint(self) -> QSize:
        return QSize(self.sizeHint().width(), self._note_top)

    @property
    def _note_top(self) -> int:
        return self.caption.sizeHint().height() + self.number.sizeHint().height() + 2

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        caption, number, unit = (label.sizeHint() for label in (self.caption, self.number, self.unit))
        top = caption.height() + 1
        self.caption.setGeometry(0, 0, self.width(), caption.height())
        self.number.setGeometry(0, top, number.width(), number.height())
        base = (number.height() + self.number.fontMetrics().ascent() - self.number.fontMetrics().descent()) // 2
        ascent, descent = self.unit.fontMetrics().ascent(), self.unit.fontMetrics().descent()
        middle = (unit.height() + ascent - descent) // 2  # of the unit, down to its base line
        self.unit.setGeometry(number.width() + _UNIT, top + base - middle, unit.width(), unit.height())
        self.note.setGeometry(0, self._note_top, self.width(), max(0, self.height() - self._note_top))
