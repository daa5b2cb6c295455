"""One message of the transcript: its blocks, built when it first comes near the screen."""

from __future__ import annotations

from collections.abc import Iterator

from app.chat.answer_facts import notes
from app.chat.markdown.splitter import Block, BlockSplitter
from app.chat.transcript.block_view import BlockView, CodeView, MarkdownView, NoteView, PlainView
from app.chat.transcript.style import TranscriptStyle
from app.store.records import Message

FOOTER_HEIGHT = 34.0
SLICE = 1 << 16  # characters cut into blocks at a time
PLAIN_PIECE = 4000  # characters of the owner's text in one document


class MessageView:
    """Heights are estimates until blocks are laid out; `height` counts the footer."""

    def __init__(self, message: Message, style: TranscriptStyle, width: float) -> None:
        self.message = message
        self.views: list[BlockView] = []
        self.is_built = False
        self._style = style
        self._width = width
        self._splitter = BlockSplitter()
        self._fed = 0  # characters of the content that are cut into blocks
        self._notes = 0  # of the views, at the end
        self._tops: list[float] | None = None
        self._body_height = self._estimate()

    @property
    def is_answer(self) -> bool:
        return self.message.role == "assistant"

    @property
    def height(self) -> float:
        return self._body_height + FOOTER_HEIGHT

    @property
    def body_height(self) -> float:
        return self._body_height

    @property
    def is_fed(self) -> bool:
        return self._fed >= len(self.message.content)

    def tops(self) -> list[float]:
        """Top of each block inside the message."""
        if self._tops is None:
            tops: list[float] = []
            bottom = 0.0
            for view in self.views:
                top = bottom + view.gap if tops else 0.0
                tops.append(top)
                bottom = top + view.height
            self._tops, self._body_height = tops, bottom
        return self._tops

    def changed(self) -> None:
        """A block's height is another one now."""
        self._tops = None
        if self.is_built:
            self.tops()

    def build(self) -> None:
        """Make the blocks, of the first SLICE of a very long text."""
        if not self.is_built:
            self.is_built = True
            if self.is_answer:
                self.feed_slice()
            else:
                self._build_plain()
                self._fed = len(self.message.content)
            self._add_notes()
            self.changed()

    def feed_slice(self) -> None:
        """Cut the next SLICE of the content into blocks."""
        content = self.message.content
        piece = content[self._fed : self._fed + SLICE]
        self._fed += len(piece)
        if piece:
            self._feed(piece)

    def grow(self) -> None:
        """The content became longer."""
        if not self.is_built:
            self._body_height = self._estimate()
            return
        while not self.is_fed:
            self.feed_slice()

    def refresh(self) -> None:
        """The status or the details changed."""
        if self.is_built:
            self._remove_notes()
            self._add_notes()
            self.changed()

    def set_style(self, style: TranscriptStyle, width: float) -> None:
        """Another theme or text size: everything is built anew when it is needed."""
        self._style, self._width = style, width
        self.views, self.is_built, self._fed, self._notes = [], False, 0, 0
        self._splitter = BlockSplitter()
        self._tops = None
        self._body_height = self._estimate()

    def set_width(self, width: float) -> None:
        """Layouts are void, heights become estimates in proportion."""
        factor = self._width / width if width else 1.0
        self._width = width
        if not self.is_built:
            self._body_height *= factor
            return
        for view in self.views:
            view.release()
            view.height *= factor if isinstance(view, MarkdownView | PlainView) else 1.0
        self.changed()

    def laid_out(self) -> Iterator[BlockView]:
        return (view for view in self.views if view.is_laid_out)

    # --- making blocks ---

    def _feed(self, text: str) -> None:
        self._remove_notes()
        first = self._splitter.feed(text)
        blocks = self._splitter.blocks
        first = min(first, len(self.views))
        kept = self.views[first:]
        del self.views[first:]
        for index in range(first, len(blocks)):
            old = kept[index - first] if index - first < len(kept) else None
            self.views.append(self._view(blocks[index], old))
        self._mark_last_pieces(first)
        self._add_notes()
        self.changed()

    def _view(self, block: Block, old: BlockView | None) -> BlockView:
        if old is not None and old.source == block.source and isinstance(old, CodeView) == (block.kind == "code"):
            return old
        view: BlockView
        if block.kind == "code":
            view = CodeView(self._style, block.source, block.language, block.part)
        else:
            view = MarkdownView(self._style, block.source)
        view.estimate(self._width)
        return view

    def _mark_last_pieces(self, first: int) -> None:
        for index in range(max(0, first - 1), len(self.views)):
            view = self.views[index]
            if isinstance(view, CodeView):
                following = self.views[index + 1] if index + 1 < len(self.views) else None
                is_last = not (isinstance(following, CodeView) and following.part > 0)
                if view.is_last != is_last:
                    view.is_last = is_last
                    view.release()

    def _build_plain(self) -> None:
        pieces = _pieces(self.message.content)
        for part, piece in enumerate(pieces):
            view = PlainView(self._style, piece, part, is_last=part == len(pieces) - 1)
            view.estimate(self._width)
            self.views.append(view)

    def _add_notes(self) -> None:
        for words, serious in notes(self.message):
            note = NoteView(self._style, words, serious=serious)
            note.estimate(self._width)
            self.views.append(note)
            self._notes += 1

    def _remove_notes(self) -> None:
        if self._notes:
            del self.views[-self._notes :]
            self._notes = 0

    def _estimate(self) -> float:
        size = self._style.body.pixelSize()
        per_line = max(10.0, self._width / (size * 0.5))
        content = self.message.content
        lines = len(content) / per_line + content.count("\n") * 0.8 + 1
        return lines * size * 1.5


def _pieces(text: str) -> list[str]:
    """Cut at line ends (a longer line: anywhere) into pieces that one document bears."""
    if len(text) <= PLAIN_PIECE:
        return [text]
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + PLAIN_PIECE
        if end >= len(text):
            pieces.append(text[start:])
            break
        cut = text.rfind("\n", start, end)
        if cut > start:
            pieces.append(text[start:cut])
            start = cut + 1
        else:
            pieces.append(text[start:end])
            start = end
    return pieces
