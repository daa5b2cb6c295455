"""The thread that owns the file: order, streaming text, and files that cannot be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import app.store.conversations
import app.store.store_thread
from app.store.conversations import ConversationStore
from app.store.errors import StoreError
from app.store.own_files import OwnFiles
from app.store.records import Conversation, Message, Status
from app.store.session_copy import SessionCopy
from app.store.store_thread import StoreThread


@pytest.fixture
def errors():
    return []


@pytest.fixture
def thread(tmp_path, errors):
    threads = []

    def make(path=tmp_path / "c.db"):
        threads.append(StoreThread(path, deliver=lambda function: function(), on_error=errors.append))
        threads[-1].start()
        return threads[-1]

    yield make
    for one in threads:
        one.close()


def ask(thread, function):
    done = threading.Event()
    results = []

    def finish(result):
        results.append(result)
        done.set()

    thread.call(function, finish, finish)
    assert done.wait(20)
    return results[0]


def put(thread):
    thread.call(lambda store: store.put_conversation(Conversation("c", "T")))
    answer = Message("a", "c", None, "assistant", "", status=Status.STREAMING)
    thread.call(lambda store: store.put_messages([answer]))


def test_calls_run_in_order_and_see_the_text_handed_over_before(thread):
    one = thread()
    put(one)
    one.save_text("a", "so far")
    assert ask(one, lambda store: store.messages("c"))[0].content == "so far"


def test_text_is_saved_without_any_call(thread, tmp_path):
    one = thread()
    put(one)
    ask(one, lambda store: None)
    one.save_text("a", "streamed")
    deadline = threading.Event()
    reader = sqlite3.connect(tmp_path / "c.db")
    for _ in range(200):
        if reader.execute("SELECT content FROM messages").fetchone() == ("streamed",):
            break
        deadline.wait(0.05)
    else:
        pytest.fail("the text was never saved")
    reader.close()


def test_closing_saves_what_waits(thread, tmp_path):
    one = thread()
    put(one)
    one.save_text("a", "last words")
    one.close()
    store = ConversationStore(tmp_path / "c.db")
    assert store.messages("c")[0].content == "last words"
    store.close()


def test_a_failing_call_reaches_its_caller_and_the_thread_goes_on(thread, errors):
    one = thread()
    failure = ask(one, lambda store: 1 / 0)
    assert isinstance(failure, ZeroDivisionError)
    assert errors == []
    assert ask(one, lambda store: store.conversations()) == []


@pytest.mark.parametrize("damage", [b"this is no database at all" * 200, b"SQLite format 3\0" + b"\xff" * 4080])
def test_a_damaged_file_is_set_aside_and_told(thread, errors, tmp_path, damage):
    (tmp_path / "c.db").write_bytes(damage)
    one = thread()
    put(one)
    assert len(ask(one, lambda store: store.conversations())) == 1
    assert isinstance(errors[0], StoreError)
    (kept,) = tmp_path.glob("c.damaged-*.db")
    assert kept.read_bytes() == damage
    assert kept.name in errors[0].done


def test_a_newer_file_is_left_alone_and_this_session_lives_in_memory(thread, errors, tmp_path):
    connection = sqlite3.connect(tmp_path / "c.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    one = thread()
    put(one)
    assert len(ask(one, lambda store: store.conversations())) == 1
    assert "newer" in errors[0].cause


def test_a_folder_that_cannot_be_made_is_told(thread, errors, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    one = thread(tmp_path / "file" / "c.db")
    assert ask(one, lambda store: store.conversations()) == []
    assert "cannot be used" in errors[0].cause


def test_what_found_no_room_is_written_in_order_once_there_is_some(thread, errors, tmp_path):
    one = thread()
    ask(one, lambda store: store._connection.execute("PRAGMA max_page_count = 1").fetchall())  # as a full disk
    long = Message("q", "c", None, "user", "x" * 100_000)
    one.call(lambda store: store.put_conversation(Conversation("c", "T" * 50_000)))
    one.call(lambda store: store.put_messages([long]))
    one.call(lambda store: store.put_messages([Message("a", "c", "q", "assistant", "", status=Status.STREAMING)]))
    for text in ("so", "so far"):
        one.save_text("a", text)
        assert ask(one, lambda store: store.conversations()) == []
    assert [type(error) for error in errors] == [StoreError]
    assert "full" in errors[0].cause
    ask(one, lambda store: store._connection.execute("PRAGMA max_page_count = 1000000").fetchall())
    one.close()
    again = thread()
    assert [message.content for message in ask(again, lambda store: store.messages("c"))] == ["x" * 100_000, "so far"]
    assert len(errors) == 1


@pytest.mark.parametrize("what", ["file", "logs", "folder"])
def test_a_file_that_is_taken_away_comes_back_whole(thread, errors, tmp_path, what):
    """SQLite says nothing of it on most systems, and all of a session would be gone with the process."""
    path = tmp_path / "data" / "c.db"
    one = thread(path)
    put(one)
    one.save_text("a", "before")
    ask(one, lambda store: None)
    for suffix in ("",) if what == "file" else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    if what == "folder":
        path.parent.rmdir()
    one.save_text("a", "before, and after")
    assert ask(one, lambda store: store.messages("c"))[0].content == "before, and after"
    assert [type(error) for error in errors] == [StoreError]
    assert "taken away" in errors[0].cause and errors[0].done and errors[0].remedy
    one.call(lambda store: store.put_conversation(Conversation("d", "Another")))
    one.close()
    store = ConversationStore(path)
    assert {conversation.id for conversation in store.conversations()} == {"c", "d"}
    assert store.messages("c")[0].content == "before, and after"
    store.close()
    assert len(errors) == 1 and sorted(file.name for file in path.parent.iterdir()) == ["c.db"]


def test_a_file_that_is_taken_away_in_the_end_comes_back_too(thread, errors, tmp_path):
    one = thread()
    put(one)
    ask(one, lambda store: None)
    (tmp_path / "c.db").unlink()
    one.close()
    store = ConversationStore(tmp_path / "c.db")
    assert [conversation.id for conversation in store.conversations()] == ["c"]
    store.close()
    assert len(errors) == 1


def test_a_file_that_cannot_come_back_yet_is_written_when_it_can(thread, errors, tmp_path):
    path = tmp_path / "data" / "c.db"
    one = thread(path)
    put(one)
    ask(one, lambda store: None)
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    one.call(lambda store: store.put_conversation(Conversation("d", "Another")))
    ask(one, lambda store: None)
    assert "cannot be saved" in errors[0].cause
    path.parent.unlink()
    one.close()
    store = ConversationStore(path)
    assert {conversation.id for conversation in store.conversations()} == {"c", "d"}
    store.close()


@pytest.mark.parametrize("logs", [False, True])
def test_another_file_in_its_place_is_noticed_and_neither_is_lost(thread, errors, tmp_path, logs):
    """A backup or a copy of another computer, put there by hand or by a program that keeps folders alike."""
    path, elsewhere = tmp_path / "data" / "c.db", tmp_path / "other" / "c.db"
    backup = ConversationStore(elsewhere)
    backup.put_conversation(Conversation("b", "Backup"))
    if logs:  # as a copy of a running program's folder has them
        elsewhere = Path(shutil.copytree(elsewhere.parent, tmp_path / "copy")) / "c.db"
    backup.close()
    one = thread(path)
    put(one)
    one.save_text("a", "before")
    ask(one, lambda store: None)
    for suffix in ("", "-wal") if logs else ("",):
        elsewhere.with_name(elsewhere.name + suffix).replace(path.with_name(path.name + suffix))
    one.save_text("a", "before, and after")
    assert ask(one, lambda store: store.messages("c"))[0].content == "before, and after"
    assert ask(one, lambda store: store.messages("c"))[0].status is Status.STREAMING
    assert [type(error) for error in errors] == [StoreError]
    assert "replaced" in errors[0].cause and errors[0].remedy
    one.close()
    other = next(file for file in path.parent.iterdir() if "other" in file.name and file.suffix == ".db")
    assert other.name in errors[0].done
    for file, names in ((path, ["c"]), (other, ["b"])):
        store = ConversationStore(file)
        assert [conversation.id for conversation in store.conversations()] == names
        assert store._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        store.close()
    assert len(errors) == 1 and sorted(file.name for file in path.parent.iterdir()) == ["c.db", other.name]


@pytest.mark.parametrize("step", ["replace", "open"])
@pytest.mark.parametrize("replaced", [False, True])
def test_what_fails_while_a_file_comes_back_is_done_the_next_time(
    thread, errors, tmp_path, monkeypatch, step, replaced
):
    """A disk that is full just then, or a program that holds the new file for a moment."""
    path = tmp_path / "c.db"
    one = thread(path)
    put(one)
    ask(one, lambda store: None)
    if step == "open":
        failing, name, error = app.store.conversations, "open_database", sqlite3.OperationalError("database is locked")
    else:
        failing, name, error = OwnFiles, "remove_logs", PermissionError("in use")
    original, failures = getattr(failing, name), [error, error]

    def fail_twice(*arguments):
        if failures:
            raise failures.pop()
        return original(*arguments)

    monkeypatch.setattr(failing, name, fail_twice)
    path.unlink()
    if replaced:
        (tmp_path / "theirs.db").write_text("theirs")
        (tmp_path / "theirs.db").replace(path)
    one.call(lambda store: store.put_conversation(Conversation("d", "Another")))
    one.close()  # which tries once more, and once more
    assert not failures and [type(error) for error in errors] == [StoreError, StoreError]
    assert "cannot be saved" in errors[0].cause and ("replaced" if replaced else "taken away") in errors[1].cause
    store = ConversationStore(path)
    assert {conversation.id for conversation in store.conversations()} == {"c", "d"}
    store.close()
    kept = [file.read_text() for file in tmp_path.iterdir() if file != path]
    assert kept == (["theirs"] if replaced else [])


def test_two_replacements_in_one_second_are_both_kept(thread, errors, tmp_path):
    path = tmp_path / "data" / "c.db"
    one = thread(path)
    put(one)
    for name in ("first", "second"):
        ask(one, lambda store: None)
        other = tmp_path / f"{name}.db"
        other.write_text(name)
        other.replace(path)
        one.call(lambda store: store.touch("c"))
    one.close()
    kept = {file.read_text() for file in path.parent.iterdir() if "other" in file.name}
    assert kept == {"first", "second"} and len(errors) == 2


@pytest.mark.parametrize("theirs", ["another", "older", "cut", "nonsense"])
@pytest.mark.parametrize("reads", [False, True])
def test_a_file_that_is_written_over_is_noticed_and_neither_is_lost(thread, errors, tmp_path, theirs, reads):
    """The same file with another's bytes, as `cp` leaves it."""
    path, elsewhere = tmp_path / "data" / "c.db", tmp_path / "other.db"
    earlier = ConversationStore(path)
    earlier.put_conversation(Conversation("e", "Earlier"))
    earlier.put_messages([Message("e0", "e", None, "user", "long ago")])
    earlier.close()
    older = path.read_bytes()
    earlier = ConversationStore(path)
    earlier.put_messages([Message(f"e{number}", "e", None, "user", "long ago " * 999) for number in range(300)])
    earlier.close()
    other = ConversationStore(elsewhere)
    if theirs == "another":
        other.put_conversation(Conversation("b", "Backup"))
    other.close()
    written = {"older": older, "cut": path.read_bytes()[:10_000], "nonsense": b"no database"}
    one = thread(path)
    put(one)
    one.call(lambda store: store.put_conversation(Conversation("c", "Titled")))
    one.call(lambda store: store.delete_messages(["e7"]))
    one.save_text("a", "before")
    ask(one, lambda store: None)
    content = written.get(theirs, elsewhere.read_bytes())
    path.write_bytes(content)
    if not reads:
        one.save_text("a", "before, and after")
        ask(one, lambda store: None)
    assert len(ask(one, lambda store: store.messages("e"))) == 299
    assert [type(error) for error in errors] == [StoreError]
    one.close()
    kept = next(file for file in path.parent.iterdir() if "other" in file.name)
    assert kept.read_bytes() == content and kept.name in errors[0].done
    store = ConversationStore(path)
    assert {(item.id, item.title) for item in store.conversations()} == {("e", "Earlier"), ("c", "Titled")}
    assert len(store.messages("e")) == 299 and store.search("long ago")
    assert store.messages("c")[0].content == ("before" if reads else "before, and after")
    assert store._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store.close()
    assert len(errors) == 1 and sorted(file.name for file in path.parent.iterdir()) == ["c.db", kept.name]


@pytest.mark.parametrize("how", ["touched", "written with what is there"])
@pytest.mark.parametrize("messages", [3, 900])  # the second: more than stays in the log
def test_a_file_whose_time_alone_is_another_one_is_still_ours(thread, errors, tmp_path, how, messages):
    path = tmp_path / "c.db"
    one = thread(path)
    put(one)
    said = [Message(f"m{number}", "c", None, "user", f"{number} " * 2000) for number in range(messages)]
    one.call(lambda store: store.put_messages(said))
    one.call(lambda store: store.touch("c"))
    ask(one, lambda store: None)
    for time in (1_000_000_000, 2_000_000_000):
        if how == "touched":
            os.utime(path, (time, time))
        else:
            path.write_bytes(path.read_bytes())
        one.call(lambda store: store.touch("c"))
        assert len(ask(one, lambda store: store.messages("c"))) == messages + 1
    assert not errors and not [file for file in tmp_path.iterdir() if "other" in file.name]
    path.write_bytes(path.read_bytes()[::-1])
    assert len(ask(one, lambda store: store.messages("c"))) == messages + 1
    assert len(errors) == 1 and "replaced" in errors[0].cause


def test_reading_the_file_leaves_its_lock(tmp_path):
    """Another program that found it unlocked would take the log for left over by a crash, and remove it."""
    path = tmp_path / "c.db"
    store = ConversationStore(path)
    for time in (1_000_000_000, 2_000_000_000):
        store.put_conversation(Conversation("c", "T"))
        os.utime(path, (time, time))
        assert store.put_back() is None
    ask_for_all = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode = DELETE')"
    other = subprocess.run([sys.executable, "-c", ask_for_all, path], capture_output=True, text=True, check=False)
    assert "database is locked" in other.stderr
    store.close()
    subprocess.run([sys.executable, "-c", ask_for_all, path], check=True)


def test_a_file_that_is_written_over_before_anything_was_said(thread, errors, tmp_path, monkeypatch):
    monkeypatch.setattr(app.store.store_thread, "COPY_AFTER", 0.0)
    path = tmp_path / "c.db"
    earlier = ConversationStore(path)
    earlier.put_conversation(Conversation("e", "Earlier"))
    earlier.close()
    taken, take = threading.Event(), ConversationStore.take_copy
    monkeypatch.setattr(
        ConversationStore, "take_copy", lambda store: take(store) or store._session.is_due or taken.set()
    )
    one = thread(path)
    assert taken.wait(20)
    ask(one, lambda store: None)
    path.write_bytes(b"")
    assert [item.id for item in ask(one, lambda store: store.conversations())] == ["e"]
    assert len(errors) == 1


def test_rows_of_the_session_keep_their_order_when_a_file_is_written_over(tmp_path):
    """What was deleted stays so, what was put back is there; a purged conversation leaves nothing."""
    store = ConversationStore(tmp_path / "c.db")
    for name in ("kept", "purged", "trash"):
        store.put_conversation(Conversation(name))
        store.put_messages([Message(f"{name}-{number}", name, None, "user", "x") for number in (1, 2)])
    messages = store.messages("kept")
    store.delete_messages(["kept-1", "kept-2"])
    store.put_messages(messages[:1])
    store.save_details("kept-1", {"a": 1})
    store.purge("purged")
    store.put_conversation(Conversation("trash", deleted_at=5.0))
    store.empty_trash(6.0)
    store.touch("kept")
    before = store.conversations(), store.messages("kept")
    (tmp_path / "c.db").write_bytes(b"theirs")
    assert store.put_back()
    assert (store.conversations(), store.messages("kept")) == before and len(before[1]) == 1
    assert store._connection.execute("SELECT count(*) FROM messages").fetchone() == (1,)
    assert store.put_back() is None
    store.close()


def test_where_no_copy_could_be_taken_the_sessions_own_changes_are_kept(tmp_path, monkeypatch):
    """The disk for temporary files may be full."""
    ConversationStore(tmp_path / "c.db").close()

    def full(copy, connection):
        copy.is_due = False
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(SessionCopy, "take", full)
    store = ConversationStore(tmp_path / "c.db")
    store.put_conversation(Conversation("c"))
    store.put_messages([Message("a", "c", None, "user", "words")])
    (tmp_path / "c.db").write_bytes(b"theirs")
    assert store.put_back()
    assert [message.content for message in store.messages("c")] == ["words"]
    store.close()
