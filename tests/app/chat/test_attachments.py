"""Files that go along with a message."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QUrl

from app.chat import attachments
from app.chat.attachments import Attachment, prompt_text, read_attachment, stored
from app.store.records import Status
from engine.errors import EngineError


def pdf(path: Path, text: str) -> Path:
    """The smallest PDF with one line of text."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode() if text else b""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(data)
    data += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % table
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("plain — ü 你好\n".encode(), "plain — ü 你好\n"),
        (b"\xef\xbb\xbfwith a mark", "with a mark"),
        ("wide".encode("utf-16"), "wide"),
        (b"caf\xe9", "café"),
        (b"", ""),
    ],
)
def test_text_in_its_encodings(tmp_path, data, text):
    (tmp_path / "a.txt").write_bytes(data)
    assert read_attachment(tmp_path / "a.txt") == Attachment("a.txt", text)


def test_the_text_of_a_pdf(tmp_path):
    attachment = read_attachment(pdf(tmp_path / "a.pdf", "Hello from a page"))
    assert (attachment.text, attachment.pages) == ("Hello from a page", 1)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.bin", b"\x00\x01\x02", "neither text nor a PDF"),
        ("a.pdf", b"%PDF-1.4\nnothing", "could not be read"),
        ("long.txt", b"x" * 200, "characters"),
    ],
)
def test_what_cannot_be_attached_is_refused_by_name(tmp_path, monkeypatch, name, data, reason):
    monkeypatch.setattr(attachments, "MAX_CHARS", 100)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(EngineError, match=reason) as caught:
        read_attachment(tmp_path / name)
    assert name in caught.value.cause


def test_a_pdf_of_pictures_and_a_missing_file(tmp_path):
    with pytest.raises(EngineError, match="no text"):
        read_attachment(pdf(tmp_path / "scan.pdf", ""))
    with pytest.raises(EngineError, match=r"gone\.txt"):
        read_attachment(tmp_path / "gone.txt")


def test_a_file_cannot_end_its_own_marks():
    text = prompt_text(stored([Attachment("a.md", "```\ncode\n```\n````")]), "Explain")
    assert text == "File “a.md”:\n`````\n```\ncode\n```\n````\n`````\n\nExplain"


def test_attaching_sending_and_answering_again(app, qtbot, tmp_path):
    (tmp_path / "notes.txt").write_text("the notes")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "notes.txt"))])
    app.page.composer.edit.insertFromMimeData(data)
    qtbot.waitUntil(lambda: len(app.page.attachments.chips) == 1)
    assert app.page.composer.button.isEnabled()
    app.page.composer.set_text("Summarise")
    app.page.composer._submit()
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    assert app.page.attachments.chips == []
    assert "the notes" in app.engine.requests()[0].messages[0].content
    assert app.session.path()[0].content == "Summarise"
    assert "notes.txt" in app.page.transcript.message_views[0].views[0].source
    app.session.edit(app.session.path()[0].id, "In one word")
    qtbot.waitUntil(lambda: len(app.engine.requests()) == 2)
    assert "the notes" in app.engine.requests()[1].messages[0].content


def test_too_large_is_said_before_sending(app, qtbot, monkeypatch):
    monkeypatch.setattr(app.page.attachments._counter, "count", lambda text, done: done(5000))
    app.page.attachments.add(Attachment("big.txt", "x"))
    assert app.page.attachments.warning.isVisible()
    assert "5,000" in app.page.attachments.warning.text()
    assert "4,096" in app.page.attachments.warning.text()
    app.page.attachments.clear()
    assert not app.page.attachments.isVisible()


def test_a_file_that_cannot_be_read_is_explained(app, qtbot, tmp_path):
    app.page.attachments.add_files([tmp_path / "gone.txt"])
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    assert "gone.txt" in app.page.problem_stack.cards[0].problem.cause


def test_a_file_name_that_is_no_text_can_be_stored(tmp_path):
    path = tmp_path / "caf\udce9.txt"
    try:
        path.write_text("coffee")
    except (OSError, UnicodeEncodeError):
        pytest.skip("this file system takes no such names")
    name = read_attachment(path).name
    assert name.encode() == b"caf?.txt"
