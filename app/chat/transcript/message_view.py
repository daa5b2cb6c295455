"""One message of the transcript: its blocks, built when it first comes near the screen."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from app.chat.answer_facts import format_seconds, notes
from app.chat.markdown.splitter import Block, BlockSplitter
from app.chat.transcript.block_view import BlockView
from app.chat.transcript.code_view import CodeView
from app.chat.transcript.markdown_view import MarkdownView
from app.chat.transcript.plain_view import AttachmentView, FoldHeader, NoteView, PlainView, ReasoningView
from app.chat.transcript.style import TranscriptStyle
from app.store.records import Message, Status
from app.translation import tr
from engine.text.reasoning import ReasoningSplitter
from engine.text.segments import Segment
from engine.text.tool_calls import ToolCall, parse_calls

FOOTER_HEIGHT = 34.0
SLICE = 1 << 15  # characters cut into blocks at a time
STEP = 2048  # characters given to the reasoning splitter at a time: it looks at what is pending line by line
LINE = 80  # characters
PLAIN_PIECE = 4000  # characters of plain text in one document
THINKING = "thinking"  # key of the header over the reasoning


class MessageView:
    """Heights are estimates until blocks are laid out; `height` counts the footer.

    The blocks are, in this order: the reasoning's header and (unfolded) its text, the answer, tool calls in the same
    way as the reasoning, remarks.
    """

    def __init__(self, message: Message, style: TranscriptStyle, width: float) -> None:
        self.message = message
        self.views: list[BlockView] = []
        self.is_built = False
        self._unfolded: dict[str, bool] = {}  # the reader's choices, by the key of the header
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
        self._calls: list[ToolCall] = []
        self._call = ""  # text of the tool call that is being written
        self._call_views: list[BlockView] = []
        self._notes: list[BlockView] = []
        self._tops = None
        self._first_changed = 0  # of the blocks, by what was fed last

    @property
    def is_answer(self) -> bool:
        return self.message.role == "assistant"

    @property
    def is_thinking(self) -> bool:
        return self.message.status is Status.STREAMING and self._split.reasoning

    def is_unfolded(self, key: str) -> bool:
        """Reasoning is open while the model is thinking, unless the reader wants it otherwise."""
        return self._unfolded.get(key, key == THINKING and self.is_thinking)

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

    def grow(self) -> tuple[float, bool]:
        """The content became longer. Returns from where on, below the message's top, it looks different, and whether
        that is all: a line of a block that is laid out became longer, and nothing else."""
        if not self.is_built:
            self._body_height = self._estimate()
            return 0.0, False
        height, count = self._body_height, len(self.views)
        self._first_changed = len(self.views)
        for view in self._body[-1:]:
            view.grown_from = math.inf
        while not self.is_fed:
            self.feed_slice()
        tops, first = self.tops(), self._first_changed
        if first >= len(tops):
            return self._body_height, False
        view = self.views[first]
        if not view.is_laid_out or view.grown_from == math.inf:
            return tops[first], False
        return tops[first] + view.grown_from, (self._body_height, len(self.views), first) == (height, count, count - 1)

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

    def toggle_fold(self, key: str) -> None:
        self._unfolded[key] = not self.is_unfolded(key)
        self._make_head()
        self._make_calls()
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
        reasoned = called = False
        for kind, text in segments:
            match kind:
                case "answer":
                    self._answer += text
                    self._feed_answer(text)
                case "call":
                    called = called or not self._call
                    self._call += text
                case "call_end":
                    called = True
                    self._calls += parse_calls(self._call)
                    self._call = ""
                case "all_reasoning":
                    reasoned = True
                    self._reasoning += self._answer
                    self._answer, self._blocks, self._body = "", BlockSplitter(), []
                case "reasoning":
                    reasoned = True
                    self._reasoning += text
        if reasoned or (self._head and self._head_is_stale()):
            self._make_head()
            self._first_changed = 0
        if called:
            self._make_calls()
            self._first_changed = min(self._first_changed, len(self._head) + len(self._body))

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
        self._first_changed = min(self._first_changed, len(self._head) + first)
        kept = self._body[first:]
        del self._body[first:]
        for index in range(first, len(blocks)):
            old = kept[index - first] if index - first < len(kept) else None
            self._body.append(self._view(blocks[index], old))
        self._mark_last_pieces(first)

    def _view(self, block: Block, old: BlockView | None) -> BlockView:
        is_same = old is not None and isinstance(old, CodeView) == (block.kind == "code")
        if old is not None and is_same and (old.source == block.source or old.grow(block.source)):
            return old
        view: BlockView
        if block.kind == "code":
            view = CodeView(self._style, block.source, block.language, block.part, joined=block.joined)
        else:
            view = MarkdownView(self._style, block.source)
        view.estimate(self._width)
        if old is not None and is_same and old.is_laid_out and len(block.source) - len(old.source) < LINE:
            view.height = old.height  # a better guess: what follows does not jump to and fro
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
                    self._first_changed = min(self._first_changed, len(self._head) + index)

    def _head_is_stale(self) -> bool:
        header = self._head[0]
        assert isinstance(header, FoldHeader)
        return header.words != self._thinking_words()

    def _thinking_words(self) -> str:
        if self.is_thinking:
            return tr("Thinking…")
        seconds = self.message.details.get("reasoning_seconds")
        if seconds is None:
            return tr("Thoughts")
        return tr("Thought for {seconds}", seconds=format_seconds(seconds)) if seconds >= 1 else tr("Thought briefly")

    def _make_head(self) -> None:
        """The reasoning's header, and its text where it is unfolded."""
        if not self._reasoning.strip() and not self.is_thinking:
            self._head = []
            return
        unfolded = self.is_unfolded(THINKING)
        header = FoldHeader(self._style, THINKING, self._thinking_words(), is_unfolded=unfolded)
        if not unfolded:
            self._head = [header]
            return
        old = {(view.source, view.part): view for view in self._head if isinstance(view, ReasoningView)}
        views = self._pieces(self._reasoning.strip("\n"), ReasoningView)
        self._head = [header, *(old.get((view.source, view.part), view) for view in views)]  # type: ignore[attr-defined]

    def _make_calls(self) -> None:
        """What the model wants to have called: a header each, and the arguments where it is unfolded."""
        self._call_views = []
        unreadable = tr("Tool call that cannot be read (not executed)")
        for number, (name, arguments) in enumerate(self._calls):
            key = f"call {number}"
            words = tr("Tool call: {name} (not executed)", name=name) if name else unreadable
            unfolded = self.is_unfolded(key)
            self._call_views.append(FoldHeader(self._style, key, words, is_unfolded=unfolded))
            pieces = cut_plain(arguments) if unfolded else []
            for part, piece in enumerate(pieces):
                view = CodeView(self._style, piece, "json" if name else "", part)
                view.is_last = part == len(pieces) - 1
                view.estimate(self._width)
                self._call_views.append(view)
        if self._call:
            words = tr("Writing a tool call…")
            self._call_views.append(FoldHeader(self._style, "writing", words, is_unfolded=False))

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
        found = notes(self.message)
        if self._is_finished and not (self._body or self._calls) and "error" not in self.message.details:
            nothing = tr("After these thoughts no answer came.") if self._head else tr("No answer came.")
            found.insert(0, (nothing, False))
        for words, serious in found:
            note = NoteView(self._style, words, serious=serious)
            note.estimate(self._width)
            self._notes.append(note)

    def _assemble(self) -> None:
        self.views = [*self._head, *self._body, *self._call_views, *self._notes]
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
