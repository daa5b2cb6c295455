"""The painted transcript: what is shown, selected, copied, and where it scrolls."""

from __future__ import annotations

import random

import numpy as np
import pytest
import shiboken6
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QGuiApplication, QImage, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

from app.chat.answer_facts import SEPARATOR
from app.chat.readable import links
from app.chat.transcript.block_view import Span
from app.chat.transcript.code_view import CodeView
from app.chat.transcript.decorations import find_decorations
from app.chat.transcript.footer import FactsLabel
from app.chat.transcript.markdown_view import MarkdownView
from app.chat.transcript.place import STICK_DISTANCE
from app.chat.transcript.selection import TextPlace
from app.chat.transcript.style import TranscriptStyle
from app.chat.transcript.transcript import Transcript
from app.settings.values import Settings
from app.store.records import Message, Status
from app.theme.theme import Theme


@pytest.fixture
def theme(qapp: QApplication, tmp_path) -> Theme:
    theme = Theme(qapp, Settings(tmp_path / "settings.json"))
    theme.load_fonts()
    theme.apply()
    return theme


@pytest.fixture
def transcript(theme, qtbot) -> Transcript:
    widget = Transcript(theme)
    qtbot.addWidget(widget)
    widget.resize(900, 600)
    widget.show()
    qtbot.waitExposed(widget)
    return widget


def message(number: int, content: str, role: str = "") -> Message:
    role = role or ("assistant" if number % 2 else "user")
    return Message(f"m{number}", "c", None, role, content)


def conversation(count: int) -> list[Message]:
    return [message(i, f"Message {i}. " + "Some **words** to read. " * (i % 13 + 3)) for i in range(count)]


def rendered(theme: Theme, source: str) -> MarkdownView:
    view = MarkdownView(TranscriptStyle.of(theme), source)
    view.layout(600)
    return view


def text_of(view) -> str:
    return view.text(Span(0, view.length))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ('a <img src="http://example.org/x.png"> b', 'a <img src="http://example.org/x.png"> b'),
        ("<b>bold</b> &lt;i&gt; &amp;amp;", "<b>bold</b> <i> &amp;"),
        ("![alt](file:///etc/passwd)", "![alt](file:///etc/passwd)"),
        ("![a picture](http://example.org/x.png)", "a picture"),
        ("~one tilde~ and ~~two~~", "~one tilde~ and two"),
        ("first\nsecond", "first\nsecond"),
        ("It costs $5 to $10.", "It costs $5 to $10."),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a\tb\n1\t2"),
    ],
)
def test_what_markdown_shows(theme, source, shown):
    assert text_of(rendered(theme, source)).strip() == shown


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "vbscript:x"])
def test_dangerous_addresses_are_no_links(theme, url):
    view = rendered(theme, f"[click]({url})")
    assert all(view.link_at(QPointF(x, 8)) == "" for x in range(0, 300, 3))


@pytest.mark.parametrize(
    ("source", "addresses"),
    [
        ("See https://example.org/a_b_c?x=1&y=2.", ["https://example.org/a_b_c?x=1&y=2"]),
        ("(https://en.wikipedia.org/wiki/Mosaic_(art))", ["https://en.wikipedia.org/wiki/Mosaic_(art)"]),
        ("看 https://example.org/文档。好", ["https://example.org/文档"]),
        ("**http://a.example**, http://b.example!", ["http://a.example", "http://b.example"]),
        ("[words](https://a.example) <https://b.example>", ["https://a.example", "https://b.example"]),
        ("`https://a.example` file:///etc/passwd README.md example.org", []),
    ],
)
def test_addresses_in_the_text_are_links(theme, source, addresses):
    message = Message("m", "c", None, "assistant", source)
    assert links(message) == addresses
    view = rendered(theme, source)
    assert all(view.link_at(QPointF(x, 8)) in ("", *addresses) for x in range(0, 600, 3))
    assert bool(addresses) == any(view.link_at(QPointF(x, 8)) for x in range(0, 600, 3))


def test_a_link_is_found_under_the_pointer(theme):
    view = rendered(theme, "[here](https://example.org/a)")
    assert view.link_at(QPointF(10, 8)) == "https://example.org/a"


@pytest.mark.parametrize(
    "code", ["a &lt; b &amp;&amp; c", "x\u00a0y\tz", "\U0001f642 = '\U0001d4b3'", "  lead\n\n\ntrail  "]
)
def test_code_is_copied_exactly(theme, code):
    view = CodeView(TranscriptStyle.of(theme), code, "c", 0)
    view.layout(600)
    assert view.text(Span(0, view.length)) == code


def test_part_of_code_after_an_emoji_is_copied_exactly(theme):
    view = CodeView(TranscriptStyle.of(theme), "\U0001f642 smile", "", 0)
    view.layout(600)
    assert view.text(Span(3, 8)) == "smile"  # Qt counts the emoji as two


def test_only_what_is_near_the_screen_is_laid_out(transcript):
    transcript.set_messages(conversation(2000))
    built = sum(view.is_built for view in transcript.message_views)
    assert 3 < built < 60
    assert transcript.message_views[-1].is_built


def test_reading_above_is_not_disturbed_by_an_answer_that_grows(transcript, qtbot):
    messages = [*conversation(40), Message("s", "c", None, "assistant", "Start ", status=Status.STREAMING)]
    transcript.set_messages(messages)
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() - 800)
    before = bar.value()
    grow(transcript, qtbot, messages[-1])
    assert bar.value() == before
    assert bar.maximum() > before + 800


def test_a_transcript_with_the_focus_may_go(theme, qtbot):
    widget = Transcript(theme)
    widget.show()
    widget.activateWindow()
    widget.setFocus()
    qtbot.waitUntil(widget.hasFocus)
    shiboken6.delete(widget)  # what a slot raised would fail the test


@pytest.mark.parametrize(("distance", "follows"), [(0, True), (STICK_DISTANCE, True), (STICK_DISTANCE + 1, False)])
def test_the_64_pixel_rule(transcript, qtbot, distance, follows):
    messages = [*conversation(40), Message("s", "c", None, "assistant", "Start ", status=Status.STREAMING)]
    transcript.set_messages(messages)
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() - 500)
    bar.setValue(bar.maximum() - distance)
    assert transcript.is_at_bottom is follows
    grow(transcript, qtbot, messages[-1])
    assert (bar.value() == bar.maximum()) is follows


def grow(transcript, qtbot, message: Message) -> None:
    heights = transcript.verticalScrollBar().maximum()
    message.content += "More words to come. " * 60
    transcript.grow(message)
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > heights)


def test_only_the_open_block_is_laid_out_again(transcript, qtbot):
    answer = Message("s", "c", None, "assistant", "First block.\n\nSecond ", status=Status.STREAMING)
    transcript.set_messages([message(0, "Q"), answer])
    view = transcript.message_views[1]
    first, second = view.views
    answer.content += "grows"
    transcript.grow(answer)
    qtbot.waitUntil(lambda: view.views[1] is not second)
    assert view.views[0] is first


def test_selection_survives_tokens_that_come_in(transcript, qtbot):
    answer = Message("s", "c", None, "assistant", "The first block.\n\nSecond ", status=Status.STREAMING)
    transcript.set_messages([message(0, "Question"), answer])
    transcript.selection.set(TextPlace(1, 0, 4), TextPlace(1, 0, 9))
    assert transcript.selecting.selected_text() == "first"
    answer.content += "grows " * 30
    transcript.grow(answer)
    qtbot.waitUntil(lambda: "grows" in transcript.message_views[1].views[1].source)
    assert transcript.selecting.selected_text() == "first"
    transcript.selecting.copy()
    assert QGuiApplication.clipboard().text() == "first"


def test_select_all_takes_every_message(transcript):
    transcript.set_messages([message(0, "Question"), message(1, "An *answer*\n\n```\ncode\n```")])
    transcript.selecting.select_all()
    assert transcript.selecting.selected_text() == "Question\n\nAn answer\n\ncode"


def test_selecting_with_the_mouse_across_messages(transcript, qtbot):
    transcript.set_messages([message(0, "Question"), message(1, "Answer")])
    viewport = transcript.viewport()
    (_, first, top), (_, _second, below) = transcript.visible_messages()
    start = QPoint(round(transcript.column_left() + first.views[0].origin.x()), round(top + 20))
    end = QPoint(round(transcript.column_left()) + 500, round(below + 10))
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(viewport, end)
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=end)
    assert transcript.selecting.selected_text() == "Question\n\nAnswer"


def test_double_click_selects_a_word(transcript, qtbot):
    transcript.set_messages([message(1, "wonderful words here", "assistant")])
    at = QPoint(round(transcript.column_left()) + 12, 36)
    qtbot.mouseDClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert transcript.selecting.selected_text() == "wonderful"


def test_the_code_button_copies_all_pieces(transcript, qtbot):
    code = "\n".join(f"line {i} &lt;" for i in range(300))
    transcript.set_messages([message(1, f"```c\n{code}\n```", "assistant")])
    transcript.verticalScrollBar().setValue(0)
    button = next(button for button in transcript._overlay._code_buttons if button.isVisible())
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == code


def test_a_very_long_message_is_cut_over_several_turns_of_the_event_loop(transcript, qtbot):
    text = "A paragraph of some words.\n\n" * 20000
    transcript.set_messages([message(1, text, "assistant")])
    view = transcript.message_views[0]
    assert not view.is_fed
    qtbot.waitUntil(lambda: view.is_fed, timeout=20000)
    assert len(view.views) == 20000
    assert transcript.is_at_bottom
    assert transcript.verticalScrollBar().value() == transcript.verticalScrollBar().maximum()


def test_another_width_keeps_the_reader_at_the_same_message(transcript, qtbot):
    transcript.set_messages(conversation(200))
    transcript.scroll_to_message("m100")
    first = transcript.visible_messages()[0][0]
    transcript.resize(520, 600)
    QApplication.processEvents()
    assert abs(transcript.visible_messages()[0][0] - first) <= 1


@pytest.mark.parametrize("text", ["مرحبا بالعالم، هذه جملة", "שלום עולם"])
def test_scripts_from_right_to_left_stand_on_the_right(theme, text):
    style = TranscriptStyle.of(theme)
    for source in (text, f"- {text}\n- {text}", f"# {text}"):
        view = rendered(theme, source)
        line = view._document.firstBlock().layout().lineAt(0)
        assert line.naturalTextRect().center().x() > view.width / 2
        assert text in text_of(view)
    code = CodeView(style, "x = 1", "py", 0)
    code.layout(600)
    assert code._document.firstBlock().layout().lineAt(0).naturalTextRect().center().x() < 300


def test_facts_that_find_no_room_are_left_out_whole(theme, qtbot):
    label = FactsLabel()
    qtbot.addWidget(label)
    label.setText(SEPARATOR.join(("complete", "1,234 tokens", "decode 25.0 tok/s")))
    metrics = QFontMetrics(label.font())
    for kept in (3, 2, 1):
        shown = SEPARATOR.join(label.text().split(SEPARATOR)[:kept])
        label.resize(metrics.horizontalAdvance(shown) + 2, 20)
        assert label.shown_text() == shown


PIECES = (
    "words ", "go on, and on. ", "12 ", "a. ", "**bold** ", "*", "`code` ", "`", "$5 ", "$x$", "\\( y \\) ",
    "well-known ", "\n",
    "\n\n", "- item ", "1. ", "# ", "> said ", "| a | b |\n|---|---|\n| c | ", "https://example.org", "[a](b) ",
    "&am", "p; ",
    "```\n", "~~no~~ ", "\u4e2d\u6587 ", "\u0639\u0631\u0628 ", "<b> ", "---\n", "www. ", "    ", "(so) ", "\\ ", "_",
)  # fmt: skip


def test_a_block_that_grows_is_what_it_would_be_if_it_were_parsed_anew(theme) -> None:
    style = TranscriptStyle.of(theme)
    assert sum(grown_and_parsed(random.Random(seed), style) for seed in range(24)) > 100


def grown_and_parsed(draw: random.Random, style: TranscriptStyle) -> int:
    """Writes one text piece by piece both ways; how often it was not parsed anew."""
    source = draw.choice(("Once ", "- an item ", "> quoted ", "## Head ", "1. first ", "| a | b |\n|---|---|\nlast "))
    view, grown = None, 0
    for _ in range(30):
        source += draw.choice(PIECES[:3]) if draw.random() < 0.6 else draw.choice(PIECES)
        shown = source.rstrip()
        if view is not None and view.grow(shown):
            grown += 1
        else:
            view = MarkdownView(style, shown)
            view.layout(400)
        fresh = MarkdownView(style, shown)
        fresh.layout(400)
        assert view._document.toHtml() == fresh._document.toHtml(), shown
        assert view.height == fresh.height
    return grown


@pytest.mark.parametrize("scrolled_up", [False, True])
def test_what_is_moved_on_screen_is_what_a_new_painting_shows(transcript, qtbot, scrolled_up) -> None:
    """The window paints only what changed; the whole painted anew shows the same."""
    shown = conversation(12)
    shown[-1].status = Status.STREAMING
    transcript.set_messages(shown)
    draw, bar = random.Random(3), transcript.verticalScrollBar()
    for number in range(60):
        shown[-1].content += draw.choice(("and more words, ", "**bold**. ", "\n\n", "```\ncode\n```\n", "- item\n"))
        transcript.grow(shown[-1])
        transcript._grow_now()
        if scrolled_up and number % 10 == 0:
            bar.setValue(bar.maximum() - draw.randrange(200, 600))
        QApplication.processEvents()
        if number % 6 == 0:
            screen = pixels(transcript.screen().grabWindow(transcript.winId()))
            anew = pixels(transcript.grab())
            assert screen.shape == anew.shape
            # A curve that was cut at the window's edge is smoothed a little differently.
            assert np.abs(screen - anew).max() <= 8


def pixels(picture: QPixmap) -> np.ndarray:
    """[height, width, 4] of int."""
    image = picture.toImage().convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.width(), 4).astype(int)


def test_a_line_that_grows_paints_no_footer(transcript, qtbot, monkeypatch) -> None:
    answer = message(1, "Once upon")
    answer.status = Status.STREAMING
    transcript.set_messages([message(0, "Tell me."), answer])
    painted = []
    paint = FactsLabel.paintEvent
    monkeypatch.setattr(FactsLabel, "paintEvent", lambda label, event: (painted.append(label), paint(label, event)))

    def write(words: str) -> None:
        answer.content += words
        transcript.grow(answer)
        transcript._grow_now()
        QApplication.processEvents()

    for words in (" a", " time", " there", " was"):
        painted.clear()
        write(words)
    assert not painted
    write(" one" * 60)  # more lines: the footer moves
    assert painted


def test_the_bar_of_a_quotation_grows_with_it(theme) -> None:
    view = rendered(theme, "> quoted `code` and")
    picture = QImage(640, 400, QImage.Format.Format_RGB32)

    def painted() -> list:
        painter = QPainter(picture)
        view.paint(painter, QPointF(0, 0), QRectF(picture.rect()), None)
        painter.end()
        assert view._decorations is not None
        return view._decorations

    bar, code = painted()
    assert not bar.radius and code.radius
    assert view.grow(view.source + " some")
    assert painted()[0] is bar  # on the same line nothing is looked for again
    assert view.grow(view.source + " more words" * 20)
    assert painted()[0].rect.height() > bar.rect.height()
    fresh = rendered(theme, view.source)
    assert painted() == find_decorations(fresh._document, fresh.width, fresh.style)
