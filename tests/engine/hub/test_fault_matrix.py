"""Every misbehaviour of the server, at every cut: the right file, or a clear state to go on from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.hub.connection import Connection
from engine.hub.errors import ChangedError, ProtocolError, VerificationError
from engine.hub.journal import part_path
from tests.engine.hub.conftest import fetch, publish
from tests.support.hub_content import Noise
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub
from tests.support.hub_zygote import Zygote

SIZE = 600_000
CONTENT = Noise(SIZE)
CUTS = (0, 3, 262_144, SIZE - 1)  # before the first byte, within the magic, at a block's end, before the last byte


@dataclass(frozen=True)
class Case:
    """Answers after the cut, and what they have to lead to; `error` None means that the file arrives."""

    name: str
    faults: tuple[Fault, ...]
    error: type[EngineError] | None = None


def repeated(fault: Fault) -> tuple[Fault, ...]:
    return (fault,) * 4  # as often as it takes to give up


CASES = (
    Case("sound", ()),
    Case("cut again and again", tuple(Fault(after=n, then="cut") for n in (0, 1, 70_000, 0, 0, 5))),
    Case("stalls", (Fault(after=1, then="stall"),)),
    Case("link expires", (Fault(after=50_000, then="expire"), Fault(status=403))),
    Case("ends early", (Fault(after=60_000, then="end"), Fault(after=0, then="end"))),
    Case("ignores the range", (Fault(ignore_range=True),)),
    Case("ignores the range and is cut", (Fault(ignore_range=True, after=400_000, then="cut"),)),
    Case("no length, chunked", (Fault(chunked=True), Fault(chunked=True, after=9, then="cut"))),
    Case("slow", (Fault(rate=4e6),)),
    Case("would compress", (Fault(gzip=True),)),
    Case("too many bytes", (Fault(extra=1000), Fault(extra=1000, chunked=True))),
    Case("too many bytes, chunked", (Fault(extra=1000, chunked=True),)),
    Case("5xx", tuple(Fault(status=status) for status in (500, 502, 503, 504))),
    Case("429", (Fault(status=429, headers={"Retry-After": "0"}),) * 3),
    Case("one web page", (Fault(html=True),)),
    Case("web pages", repeated(Fault(html=True)), ProtocolError),
    Case("compressed all the same", repeated(Fault(headers={"Content-Encoding": "gzip"})), ProtocolError),
    Case("one wrong range", (Fault(claim_range="bytes 7-599999/600000"),)),
    Case("wrong ranges", repeated(Fault(claim_range="bytes 7-599999/600000")), ProtocolError),
    Case("no range named", repeated(Fault(claim_range="none", claim_status=206)), ProtocolError),
    Case("200 with a range", repeated(Fault(claim_status=200, claim_range="bytes 5-9/10")), ProtocolError),
    Case("416", repeated(Fault(status=416, headers={"Content-Range": "bytes */600000"})), ProtocolError),
    Case("416, other size", (Fault(status=416, headers={"Content-Range": "bytes */5"}),), ChangedError),
    Case("other size", (Fault(claim_status=206, claim_range="bytes 0-9/10"),), ChangedError),
    Case("204", repeated(Fault(status=204)), ProtocolError),
    Case("links refused", repeated(Fault(status=403)), EngineError),
    Case("one wrong byte", (Fault(flip=SIZE - 1),), VerificationError),
)
COMBINATIONS = [(case, cut, False) for case in CASES for cut in CUTS]
COMBINATIONS += [(case, CUTS[2], True) for case in CASES] + [(CASES[0], cut, True) for cut in CUTS]


def name(value: object) -> str:
    return value.name if isinstance(value, Case) else "kill -9" if value is True else str(value or "")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as running:
        yield running


def interrupt(hub: FakeHub, zygote: Zygote, source: object, target: Path, cut: int) -> None:
    """A download that is killed when it has received `cut` bytes and the server has fallen silent."""
    hub.faults.append(Fault(after=cut, then="stall"))
    pid = zygote.start(hub.url, source, target)  # type: ignore[arg-type]
    deadline = time.monotonic() + 10
    expected = cut if cut >= 4 else 0  # less than the magic is not kept
    while time.monotonic() < deadline:
        part = part_path(target)
        if hub.file_requests and hub.sent >= cut and part.exists() and part.stat().st_size >= expected:
            break
        time.sleep(0.002)
    zygote.kill(pid)
    assert part_path(target).stat().st_size == expected


@pytest.mark.parametrize(("case", "cut", "killed"), COMBINATIONS, ids=name)
def test_fault(
    hub: FakeHub,
    connect: Callable[..., Connection],
    zygote: Zygote,
    tmp_path: Path,
    case: Case,
    cut: int,
    killed: bool,
) -> None:
    source = publish(hub, CONTENT)
    target = tmp_path / "Model-Q4_K_M.gguf"
    if killed:
        interrupt(hub, zygote, source, target, cut)
    else:
        hub.faults.append(Fault(after=cut, then="cut"))
    hub.faults.extend(case.faults)
    if case.error is not None:
        with pytest.raises(case.error) as caught:
            fetch(connect(), source, target)
        assert caught.value.cause
        assert not target.exists()
        hub.faults.clear()
    fetch(connect(), source, target)  # at once, or after the owner has pressed Resume
    assert target.read_bytes() == CONTENT.read(0, SIZE)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [target.name]
