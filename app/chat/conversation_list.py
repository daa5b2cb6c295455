"""The sidebar's list of conversations: open, rename (F2), delete (Del)."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.chat.conversation_list_model import (
    EXCERPT_ROLE,
    HEADING_ROLE,
    ID_ROLE,
    MESSAGE_ROLE,
    PINNED_ROLE,
    ConversationListModel,
)
from app.line_edit import LineEdit
from app.menu import open_menu
from app.theme.theme import Theme
from app.translation import tr

ROW_HEIGHT = 36
HEADING_HEIGHT = 34
EXCERPT_HEIGHT = 54
Index = QModelIndex | QPersistentModelIndex


class _RowDelegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        if index.data(HEADING_ROLE):
            return QSize(100, HEADING_HEIGHT)
        return QSize(100, EXCERPT_HEIGHT if index.data(EXCERPT_ROLE) else ROW_HEIGHT)

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
        if excerpt := index.data(EXCERPT_ROLE):
            self._paint_excerpt(painter, where, excerpt)
            where = where.adjusted(0, 0, 0, -18)
        elided = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, where.width())
        painter.drawText(where, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), elided)
        painter.restore()

    def _paint_excerpt(self, painter: QPainter, where: QRect, excerpt: str) -> None:
        theme = self._theme
        painter.save()
        painter.setFont(theme.font(theme.type.tiny))
        painter.setPen(QColor(theme.colors.muted))
        below = where.adjusted(0, 22, 0, 0)
        elided = painter.fontMetrics().elidedText(excerpt, Qt.TextElideMode.ElideRight, below.width())
        painter.drawText(below, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), elided)
        painter.restore()

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = LineEdit(parent)
        editor.setObjectName("rename")
        editor.setAccessibleName(tr("Title"))
        return editor

    def eventFilter(self, editor: QObject, event: QEvent) -> bool:
        """Keys that end the editing are left to an input method that composes."""
        if isinstance(editor, LineEdit) and editor.is_composing and event.type() == QEvent.Type.KeyPress:
            return False
        return super().eventFilter(editor, event)

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(option.rect.adjusted(4, 1, -4, -1))


class ConversationList(QListView):
    """Actions are named "pin", "folder", "duplicate", "export_markdown", "export_json", "delete"."""

    opened = Signal(str, str)  # conversation, message that was found in it or ""
    action_requested = Signal(str, str)  # action, conversation

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
        self._theme = theme
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
            self.action_requested.emit("delete", index.data(ID_ROLE))
            return
        super().keyPressEvent(event)

    def _open(self, index: QModelIndex) -> None:
        if key := index.data(ID_ROLE):
            self.opened.emit(key, index.data(MESSAGE_ROLE) or "")

    def _menu(self, point: QPoint) -> None:
        index = self.indexAt(point)
        key = index.data(ID_ROLE)
        if not key:
            return
        open_menu(self.build_menu(index), self.viewport().mapToGlobal(point))

    def build_menu(self, index: QModelIndex) -> QMenu:
        key = index.data(ID_ROLE)
        theme = self._theme

        def ask(action: str) -> Callable[[], None]:
            return lambda: self.action_requested.emit(action, key)

        menu = QMenu(self)
        menu.addAction(theme.icon("pencil"), tr("Rename"), lambda: self.edit(index))
        pinned = index.data(PINNED_ROLE)
        menu.addAction(theme.icon("pin"), tr("Unpin") if pinned else tr("Pin to the top"), ask("pin"))
        menu.addAction(theme.icon("folder"), tr("Move to a folder…"), ask("folder"))
        menu.addAction(theme.icon("copy"), tr("Duplicate"), ask("duplicate"))
        menu.addSeparator()
        menu.addAction(tr("Export as Markdown…"), ask("export_markdown"))
        menu.addAction(tr("Export as JSON…"), ask("export_json"))
        menu.addSeparator()
        menu.addAction(theme.icon("trash"), tr("Delete"), ask("delete"))
        return menu
