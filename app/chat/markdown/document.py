"""Fills a QTextDocument from Markdown tokens. No HTML is made on the way, and no resource is ever loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFrameFormat,
    QTextLength,
    QTextListFormat,
    QTextTableCellFormat,
    QTextTableFormat,
)

from app.chat.markdown.character_formats import CharacterFormats
from app.chat.markdown.inline_writer import InlineWriter
from app.chat.markdown.parser import parse
from app.chat.transcript.style import TranscriptStyle

if TYPE_CHECKING:
    from markdown_it.token import Token

QUOTE = QTextBlockFormat.Property.UserProperty + 1  # depth of the quotation a block stands in
RULE = QTextBlockFormat.Property.UserProperty + 2  # the block is a horizontal rule
CODE = QTextBlockFormat.Property.UserProperty + 3  # the block is code inside a list or quotation
BULLET = QTextBlockFormat.Property.UserProperty + 4  # the block begins an item of a bullet list

LINE_HEIGHT = 135.0  # percent
QUOTE_INDENT = 18
INDENT = 26  # of each level of a list
NO_MARKER = QTextListFormat.Style.ListStyleUndefined  # bullets are painted as decorations


class ClosedDocument(QTextDocument):
    """A document that loads nothing, from the disk or from the network."""

    def loadResource(self, kind: int, name) -> object:
        return None


@dataclass(slots=True)
class _Level:
    """A list that is being filled."""

    format: QTextListFormat
    first: bool = True
    list: object = None
    tight: bool = True


@dataclass(slots=True)
class _State:
    quote: int = 0
    levels: list[_Level] = field(default_factory=list)
    item_started: bool = False  # the item's bullet has not been given to a block yet


class DocumentBuilder:
    """Writes one block of Markdown into a document."""

    def __init__(self, document: QTextDocument, style: TranscriptStyle) -> None:
        self._document = document
        self._style = style
        self._cursor = QTextCursor(document)
        self._state = _State()
        self._empty = True
        self._formats = CharacterFormats(style)
        self.inline = InlineWriter(style, self._formats)

    def build(self, source: str) -> None:
        self._document.setDefaultFont(self._style.body)
        self._document.setDocumentMargin(0)
        self._document.setIndentWidth(INDENT)
        tokens = parse(source)
        self._cursor.beginEditBlock()
        position = 0
        while position < len(tokens):
            position = self._token(tokens, position)
        self._cursor.endEditBlock()

    # --- blocks ---

    def _token(self, tokens: list[Token], position: int) -> int:
        token = tokens[position]
        state = self._state
        match token.type:
            case "paragraph_open":
                self._paragraph(token)
            case "heading_open":
                self._heading(int(token.tag[1]))
                self.inline.write(self._cursor, tokens[position + 1], self._formats.heading(int(token.tag[1])))
                return position + 3
            case "inline":
                self.inline.write(self._cursor, token, self._body_format())
            case "bullet_list_open" | "ordered_list_open":
                state.levels.append(_Level(self._list_format(token)))
            case "bullet_list_close" | "ordered_list_close":
                state.levels.pop()
                state.item_started = False
            case "list_item_open":
                state.item_started = True
            case "list_item_close":
                if state.item_started:  # an empty item still has its bullet
                    self._paragraph(token)
                state.item_started = False
            case "blockquote_open":
                state.quote += 1
            case "blockquote_close":
                state.quote -= 1
            case "fence" | "code_block":
                self._code(token.content)
            case "hr":
                self._rule()
            case "math_block":
                self._paragraph(token)
                self._display_formula(token.content)
            case "table_open":
                return self._table(tokens, position)
        return position + 1

    def _new_block(self, block: QTextBlockFormat, chars: QTextCharFormat) -> None:
        if self._empty:
            self._cursor.setBlockFormat(block)
            self._cursor.setBlockCharFormat(chars)
            self._cursor.setCharFormat(chars)
            self._empty = False
        else:
            self._cursor.insertBlock(block, chars)

    def _block_format(self, top: float) -> QTextBlockFormat:
        block = QTextBlockFormat()
        block.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        block.setTopMargin(0 if self._empty else top)
        if self._state.quote:
            block.setLeftMargin(QUOTE_INDENT * self._state.quote)
            block.setRightMargin(QUOTE_INDENT * self._state.quote)  # for scripts from right to left
            block.setProperty(QUOTE, self._state.quote)
        return block

    def _paragraph(self, token: Token) -> None:
        state, gap = self._state, self._style.paragraph_gap
        if not state.levels:
            self._new_block(self._block_format(gap), self._body_format())
            return
        level = state.levels[-1]
        block = self._block_format(self._style.item_gap if state.item_started else gap * 0.7)
        if state.item_started:
            block.setProperty(BULLET, level.format.style() == NO_MARKER)
            self._new_block(block, self._body_format())
            if level.list is None:
                level.list = self._cursor.createList(level.format)
            else:
                level.list.add(self._cursor.block())
            state.item_started = False
        else:
            block.setIndent(len(state.levels))
            self._new_block(block, self._body_format())
            if (current := self._cursor.currentList()) is not None:
                current.remove(self._cursor.block())
                self._cursor.setBlockFormat(block)

    def _heading(self, level: int) -> None:
        block = self._block_format(self._style.paragraph_gap * (1.6 if level <= 2 else 1.2))
        block.setHeadingLevel(level)
        block.setLineHeight(125.0, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        self._new_block(block, self._formats.heading(level))
        self._leave_list()

    def _code(self, content: str) -> None:
        """Code inside a list or a quotation, or indented code."""
        style = self._style
        for number, line in enumerate(content.removesuffix("\n").split("\n")):
            block = self._block_format(style.paragraph_gap * 0.7 if number == 0 else 0)
            block.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            block.setIndent(len(self._state.levels))
            block.setProperty(CODE, True)
            block.setTextIndent(0)
            block.setLeftMargin(block.leftMargin() + 10)
            self._new_block(block, self._formats.code(has_background=False))
            self._leave_list(block)
            self._cursor.insertText(line)

    def _rule(self) -> None:
        block = self._block_format(self._style.paragraph_gap * 0.5)
        block.setProperty(RULE, True)
        self._new_block(block, self._body_format())
        self._leave_list(block)

    def _leave_list(self, block: QTextBlockFormat | None = None) -> None:
        """A block that Qt put into the list before it, taken out again."""
        if (current := self._cursor.currentList()) is not None and not self._state.item_started:
            current.remove(self._cursor.block())
            if block is not None:
                self._cursor.setBlockFormat(block)

    def _list_format(self, token: Token) -> QTextListFormat:
        form = QTextListFormat()
        depth = len(self._state.levels) + 1
        form.setIndent(depth)
        if token.type == "ordered_list_open":
            form.setStyle(QTextListFormat.Style.ListDecimal)
            form.setNumberSuffix(token.markup or ".")
            form.setStart(int(token.attrGet("start") or 1) if token.attrGet("start") is not None else 1)
        else:
            form.setStyle(NO_MARKER)
        return form

    def _table(self, tokens: list[Token], position: int) -> int:
        end = position
        rows: list[list[tuple[Token, str, bool]]] = []
        while tokens[end].type != "table_close":
            token = tokens[end]
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                rows[-1].append((tokens[end + 1], str(token.attrGet("style") or ""), token.type == "th_open"))
            end += 1
        self._fill_table(rows)
        return end + 1

    def _fill_table(self, rows: list[list[tuple[Token, str, bool]]]) -> None:
        style = self._style
        columns = max(len(row) for row in rows)
        form = QTextTableFormat()
        form.setBorderCollapse(True)
        form.setCellPadding(0)
        form.setCellSpacing(0)
        form.setBorder(0)
        form.setTopMargin(0 if self._empty else style.paragraph_gap)
        form.setWidth(QTextLength(QTextLength.Type.VariableLength, 0))
        self._empty = False
        table = self._cursor.insertTable(len(rows), columns, form)
        for row_number, row in enumerate(rows):
            for column, (content, align, head) in enumerate(row):
                cell = table.cellAt(row_number, column)
                cell.setFormat(self._cell_format(head, row_number == len(rows) - 1))
                self._cursor = cell.firstCursorPosition()
                block = QTextBlockFormat()
                block.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
                if "right" in align:
                    block.setAlignment(Qt.AlignmentFlag.AlignRight)
                elif "center" in align:
                    block.setAlignment(Qt.AlignmentFlag.AlignHCenter)
                self._cursor.setBlockFormat(block)
                chars = self._body_format()
                self.inline.write(self._cursor, content, self._formats.bold(chars) if head else chars)
        self._cursor = QTextCursor(self._document)
        self._cursor.movePosition(QTextCursor.MoveOperation.End)

    def _cell_format(self, head: bool, last: bool) -> QTextTableCellFormat:
        form = QTextTableCellFormat()
        form.setTopPadding(6)
        form.setBottomPadding(6)
        form.setLeftPadding(2)
        form.setRightPadding(18)
        if not last:
            form.setBottomBorder(1)
            form.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
            color = self._style.outline if head else self._style.border
            form.setBottomBorderBrush(QBrush(QColor(color)))
        return form

    # --- characters ---

    def _display_formula(self, latex: str) -> None:
        """On a line of its own, in the middle."""
        block = self._cursor.blockFormat()
        block.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        block.setLineHeight(100.0, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        self._cursor.setBlockFormat(block)
        self.inline.formula(self._cursor, latex, self._body_format(), is_display=True)

    def _body_format(self) -> QTextCharFormat:
        return self._formats.body(is_quoted=bool(self._state.quote))
