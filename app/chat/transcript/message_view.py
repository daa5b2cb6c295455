"""One message of the transcript: its blocks, built when it first comes near the screen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from app.chat.answer_facts import notes
from app.chat.markdown.splitter import Block, BlockSplitter
from app.chat.transcript.block_view import BlockView
from app.chat.transcript.code_view import CodeView
from app.chat.transcript.markdown_view import MarkdownView
from app.chat.transcript.plain_view import AttachmentView, NoteView, PlainView, ReasoningView, ThinkingHeader
from app.chat.transcript.style import TranscriptStyle
from app.store.records import Message, Status
from app.translation import tr
from engine.text.reasoning import ReasoningSplitter, Segment

FOOTER_HEIGHT = 34.0
SLICE = 1 << 15  # characters cut into blocks at a time
STEP = 2048  # characters given to the reasoning splitter at a time: it looks at what is pending line by line
PLAIN_PIECE = 4000  # characters of plain text in one document


class MessageView:
    """Heights are estimates until blocks are laid out; `height` counts the footer.

    The blocks are, in this order: the reasoning's header and (unfolded) its text, the answer, remarks.
    """

    def __init__(self, message: Message, style: TranscriptStyle, width: float) -> None:
        self.message = message
        self.views: list[BlockView] = []
        self.is_built = False
        self.unfolded: bool | None = None  # the reader's choice; None: open while the model is thinking
        self._style = style
        self._width = width
        self._tops: list[float] | None = None
        self._forget()
        self._body_height = self._estimate()

    def _forget(self) -> None:
        """As if nothing was built."""
        self.views, self.is_built = [], False
        self._fed = 0  # characters of the content that are cut into blocks
        self._is_finished = False
        self._split = ReasoningSplitter()
        self._reasoning = ""
        self._answer = ""  # kept while it may turn out to be reasoning
        self._blocks = BlockSplitter()
        self._head: list[BlockView] = []
        self._body: list[BlockView] = []
        self._notes: list[BlockView] = []
        self._tops = None

    @property
    def is_answer(self) -> bool:
        return self.message.role == "assistant"

    @property
    def is_thinking(self) -> bool:
        return self.message.status is Status.STREAMING and self._split.reasoning

    @property
    def is_unfolded(self) -> bool:
        return self.unfolded if self.unfolded is not None else self.is_thinking

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

    def blocks_from(self, y: float) -> Iterator[tuple[int, BlockView, float]]:
        """(number, block, top) of the blocks that end below `y`, a distance from the message's top."""
        tops = self.tops()
        for number in range(max(0, bisect_right(tops, y) - 1), len(tops)):
            yield number, self.views[number], tops[number]

    def changed(self) -> None:
        """A block's height is another one now."""
        self._tops = None
        if self.is_built:
            self.tops()

    def build(self) -> None:
        """Make the blocks, of the first SLICE of a very long text."""
        if self.is_built:
            return
        self.is_built = True
        if self.is_answer:
            self.feed_slice()
        else:
            self._head = self._summary() + [
                self._attachment(item) for item in self.message.details.get("attachments", ())
            ]
            if self.message.content or not self.message.details.get("attachments"):
                self._body = self._pieces(self.message.content, PlainView)
            self._fed = len(self.message.content)
        self._make_notes()
        self._assemble()

    def feed_slice(self) -> None:
        """Cut the next SLICE of the content into blocks."""
        content = self.message.content
        piece = content[self._fed : self._fed + SLICE]
        self._fed += len(piece)
        segments: list[Segment] = []
        for start in range(0, len(piece), STEP):
            segments += self._split.push(piece[start : start + STEP])
        self._take(segments)
        if self.is_fed and self.message.status is not Status.STREAMING:
            self._finish()
        self._assemble()

    def grow(self) -> None:
        """The content became longer."""
        if not self.is_built:
            self._body_height = self._estimate()
            return
        while not self.is_fed:
            self.feed_slice()

    def refresh(self) -> None:
        """The status or the details changed."""
        if not self.is_built:
            return
        if self.is_answer and self.is_fed and self.message.status is not Status.STREAMING:
            self._finish()
        if self.is_answer:
            self._make_head()
        self._make_notes()
        self._assemble()

    def replace(self) -> None:
        """The content is another one."""
        self._forget()
        self._body_height = self._estimate()

    def toggle_reasoning(self) -> None:
        self.unfolded = not self.is_unfolded
        self._make_head()
        self._assemble()

    def set_style(self, style: TranscriptStyle, width: float) -> None:
        """Another theme or text size: everything is built anew when it is needed."""
        self._style, self._width = style, width
        self.replace()

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

    def _take(self, segments: list[Segment]) -> None:
        reasoned = False
        for kind, text in segments:
            if kind == "answer":
                self._answer += text
                self._feed_answer(text)
                continue
            reasoned = True
            if kind == "all_reasoning":
                self._reasoning += self._answer
                self._answer, self._blocks, self._body = "", BlockSplitter(), []
            else:
                self._reasoning += text
        if reasoned or (self._head and self._head_is_stale()):
            self._make_head()

    def _finish(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            self._take(self._split.finish())
            self._update_blocks(self._blocks.finish())
            self._make_head()

    def _feed_answer(self, text: str) -> None:
        self._update_blocks(self._blocks.feed(text))

    def _update_blocks(self, first: int) -> None:
        """Blocks from `first` on are new or changed."""
        blocks = self._blocks.blocks
        first = min(first, len(self._body))
        kept = self._body[first:]
        del self._body[first:]
        for index in range(first, len(blocks)):
            old = kept[index - first] if index - first < len(kept) else None
            self._body.append(self._view(blocks[index], old))
        self._mark_last_pieces(first)

    def _view(self, block: Block, old: BlockView | None) -> BlockView:
        if old is not None and old.source == block.source and isinstance(old, CodeView) == (block.kind == "code"):
            return old
        view: BlockView
        if block.kind == "code":
            view = CodeView(self._style, block.source, block.language, block.part, joined=block.joined)
        else:
            view = MarkdownView(self._style, block.source)
        view.estimate(self._width)
        return view

    def _mark_last_pieces(self, first: int) -> None:
        for index in range(max(0, first - 1), len(self._body)):
            view = self._body[index]
            if isinstance(view, CodeView):
                following = self._body[index + 1] if index + 1 < len(self._body) else None
                is_last = not (isinstance(following, CodeView) and following.part > 0)
                if view.is_last != is_last:
                    view.is_last = is_last
                    view.release()

    def _head_is_stale(self) -> bool:
        header = self._head[0]
        assert isinstance(header, ThinkingHeader)
        return header.is_thinking != self.is_thinking

    def _make_head(self) -> None:
        """The reasoning's header, and its text where it is unfolded."""
        if not self._reasoning.strip() and not self.is_thinking:
            self._head = []
            return
        header = ThinkingHeader(self._style, self.is_thinking, self.is_unfolded)
        if not self.is_unfolded:
            self._head = [header]
            return
        old = {(view.source, view.part): view for view in self._head if isinstance(view, ReasoningView)}
        views = self._pieces(self._reasoning.strip("\n"), ReasoningView)
        self._head = [header, *(old.get((view.source, view.part), view) for view in views)]  # type: ignore[attr-defined]

    def _pieces(self, text: str, kind: type[PlainView] | type[ReasoningView]) -> list[BlockView]:
        pieces = cut_plain(text)
        views: list[BlockView] = []
        for part, piece in enumerate(pieces):
            view = kind(self._style, piece, part, is_last=part == len(pieces) - 1)
            view.estimate(self._width)
            views.append(view)
        return views

    def _summary(self) -> list[BlockView]:
        """What the model is told instead of everything above, in plain sight."""
        summary = self.message.details.get("summary_before")
        if not summary:
            return []
        words = tr("Everything above is told to the model as this summary:") + f"\n{summary}"
        note = NoteView(self._style, words, serious=False)
        note.estimate(self._width)
        return [note]

    def _attachment(self, stored: dict[str, Any]) -> BlockView:
        view = AttachmentView(self._style, stored["name"], stored.get("pages", 0), len(stored["text"]))
        view.estimate(self._width)
        return view

    def _make_notes(self) -> None:
        self._notes = []
        for words, serious in notes(self.message):
            note = NoteView(self._style, words, serious=serious)
            note.estimate(self._width)
            self._notes.append(note)

    def _assemble(self) -> None:
        self.views = [*self._head, *self._body, *self._notes]
        self.changed()

    def _estimate(self) -> float:
        size = self._style.body.pixelSize()
        per_line = max(10.0, self._width / (size * 0.5))
        content = self.message.content
        lines = len(content) / per_line + content.count("\n") * 0.8 + 1
        return lines * size * 1.5


def cut_plain(text: str) -> list[str]:
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
