"""Headers read by Range: as little as needed, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import FormatError
from engine.hub.connection import READ_BYTES, Connection
from engine.hub.errors import GatedError, HubError, ProtocolError
from engine.hub.facts import ModelFacts, model_facts
from engine.hub.journal import Source
from engine.hub.remote_header import FIRST, remote_header
from tests.engine.hub.conftest import publish
from tests.support.hub_content import Bytes
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub
from tests.support.small_gguf import small_gguf

Connect = Callable[..., Connection]


def remote_facts(connection: Connection, source: Source, cache: Path) -> ModelFacts:
    header = remote_header(connection, source, cache)
    return model_facts(header.metadata, header.tensors)


def large(tokens: int) -> bytes:
    """A model with that many tokens in its header and 30 MB of tensor data."""
    builder = small_gguf(tokens)
    builder.tensor_raw("blk.1.ffn_up.weight", (32, 1 << 18), 8, bytes((1 << 18) * 34))
    return builder.build()


@pytest.mark.parametrize("tokens", [10, 200_000])
def test_reads_a_few_megabytes_in_one_range(hub: FakeHub, connect: Connect, tmp_path: Path, tokens: int) -> None:
    data = large(tokens)
    source = publish(hub, Bytes(data))
    connection = connect()
    facts = remote_facts(connection, source, tmp_path)
    assert facts.name == "Small Model"
    assert facts.tensor_bytes > 8 << 20
    assert len(hub.seen("files")) == 1
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_size < max(FIRST, 5 * (len(data) - facts.tensor_bytes) // 2) + READ_BYTES
    before = len(hub.requests)
    assert remote_facts(connection, source, tmp_path) == facts  # from the cache
    assert len(hub.requests) == before


def test_small_file_is_read_whole(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    assert remote_facts(connect(), publish(hub, Bytes(small_gguf().build())), tmp_path).layers == 2


def test_damaged_cache_is_read_again(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, Bytes(small_gguf().build()))
    connection = connect()
    remote_facts(connection, source, tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert remote_facts(connection, source, tmp_path).layers == 2


def test_truncated_and_foreign_files_are_errors(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        remote_facts(connect(), publish(hub, Bytes(small_gguf().build()[:200])), tmp_path)
    with pytest.raises(ProtocolError):
        remote_facts(connect(), publish(hub, Bytes(b"PK\x03\x04" + bytes(500))), tmp_path)
    assert not list(tmp_path.iterdir())


def test_web_page_and_gate_are_told_apart(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, Bytes(small_gguf().build()), gated=True)
    with pytest.raises(GatedError, match="accept"):
        remote_facts(connect(), source, tmp_path)
    hub.faults.append(Fault(html=True))
    with pytest.raises(HubError, match="web page"):
        remote_facts(connect(hub.token), source, tmp_path)
    assert remote_facts(connect(hub.token), source, tmp_path).layers == 2
