"""The sidebar's list of conversations: open, rename (F2), delete (Del)."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QLineEdit,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.chat.conversation_list_model import HEADING_ROLE, ID_ROLE, ConversationListModel
from app.theme.theme import Theme
from app.translation import tr

ROW_HEIGHT = 36
HEADING_HEIGHT = 34
Index = QModelIndex | QPersistentModelIndex


class _RowDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(100, HEADING_HEIGHT if index.data(HEADING_ROLE) else ROW_HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        theme = self._theme
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect: QRect = option.rect
        text = str(index.data(Qt.ItemDataRole.DisplayRole))
        if index.data(HEADING_ROLE):
            painter.setFont(theme.font(theme.type.tiny, QFont.Weight.Medium))
            painter.setPen(QColor(theme.colors.muted))
            where = rect.adjusted(14, 6, -12, -4)
            painter.drawText(where, int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom), text)
            painter.restore()
            return
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        if selected or hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.colors.accent_soft if selected else theme.colors.hover))
            painter.drawRoundedRect(rect.adjusted(4, 1, -4, -1), 8, 8)
        if option.state & QStyle.StateFlag.State_HasFocus and selected:
            painter.setPen(QColor(theme.colors.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(4, 1, -5, -2), 8, 8)
        weight = QFont.Weight.Medium if selected else QFont.Weight.Normal
        painter.setFont(theme.font(theme.type.control, weight))
        painter.setPen(QColor(theme.colors.text))
        where = rect.adjusted(14, 0, -14, 0)
        elided = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, where.width())
        painter.drawText(where, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), elided)
        painter.restore()

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setObjectName("rename")
        editor.setAccessibleName(tr("Title"))
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(option.rect.adjusted(4, 1, -4, -1))


class ConversationList(QListView):
    """Emits what is wanted; the page decides."""

    opened = Signal(str)
    delete_requested = Signal(str)

    def __init__(self, theme: Theme, model: ConversationListModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("conversationList")
        self.setAccessibleName(tr("Conversations"))
        self.setModel(model)
        self.setItemDelegate(_RowDelegate(theme, self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setUniformItemSizes(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._menu)
        self.clicked.connect(self._open)
        self.activated.connect(self._open)
        self._list = model
        theme.changed.connect(self.viewport().update)

    def select(self, conversation_id: str | None) -> None:
        """Mark the conversation that is on screen."""
        row = self._list.row_of(conversation_id)
        if row < 0:
            self.clearSelection()
            self.setCurrentIndex(QModelIndex())
        elif self.currentIndex().row() != row or not self.selectionModel().hasSelection():
            self.setCurrentIndex(self._list.index(row))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        if event.key() == Qt.Key.Key_Delete and index.isValid() and self.state() is not self.State.EditingState:
            self.delete_requested.emit(index.data(ID_ROLE))
            return
        super().keyPressEvent(event)

    def _open(self, index: QModelIndex) -> None:
        if key := index.data(ID_ROLE):
            self.opened.emit(key)

    def _menu(self, point: QPoint) -> None:
        index = self.indexAt(point)
        key = index.data(ID_ROLE)
        if not key:
            return
        menu = QMenu(self)
        menu.addAction(tr("Rename"), lambda: self.edit(index))
        menu.addSeparator()
        menu.addAction(tr("Delete"), lambda: self.delete_requested.emit(key))
        menu.popup(self.viewport().mapToGlobal(point))
