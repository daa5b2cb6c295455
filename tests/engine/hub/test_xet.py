"""Repositories in Xet storage, by the hub's own protocol.

Asked for a file, the hub names its Xet hash and where a Xet client would turn to, and redirects everybody else to a
bridge that serves ranges (https://huggingface.co/docs/xet/file-id). The fake hub does the same, and the hub's client
library is the judge of that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from engine.hub.connection import Connection
from engine.hub.errors import VerificationError
from engine.hub.names import RepoFile
from engine.hub.ranged import file_url
from engine.hub.records import read_record
from engine.hub.remote_header import remote_header
from engine.hub.repository import open_repository
from tests.engine.hub.conftest import FILE, MODEL, fetch, publish
from tests.support.hub_content import COMMIT, Bytes, Noise, xet_hash
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub
from tests.support.small_gguf import small_gguf

Connect = Callable[..., Connection]
SIZE = 3_000_000
CONTENT = Noise(SIZE)


def test_the_client_library_takes_the_fake_hub_for_one_with_xet(
    hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = publish(hub, CONTENT, xet=True)
    connection = connect()
    url = str(file_url(connection, source))
    found = huggingface_hub.get_hf_file_metadata(url, endpoint=hub.url, token=False)
    assert found.xet_file_data is not None
    assert found.xet_file_data.file_hash == xet_hash(CONTENT) != CONTENT.sha256
    assert found.xet_file_data.refresh_route == f"{hub.url}/api/models/{MODEL}/xet-read-token/{COMMIT}"
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # as an installation without hf_xet
    path = huggingface_hub.hf_hub_download(MODEL, FILE, endpoint=hub.url, local_dir=tmp_path, token=False)
    assert Path(path).read_bytes() == CONTENT.read(0, SIZE)


def test_the_bridge_delivers_a_verified_file_in_spite_of_cuts_and_expiry(
    hub: FakeHub, connect: Connect, tmp_path: Path
) -> None:
    publish(hub, CONTENT, xet=True)
    connection = connect(hub.token)
    (model,) = open_repository(connection, MODEL).listing.models
    assert model.files == (RepoFile(FILE, SIZE, CONTENT.sha256),)
    source = publish(hub, CONTENT)
    hub.faults.extend([Fault(after=1_000_000, then="cut"), Fault(after=500_000, then="expire"), Fault(status=403)])
    transfer = fetch(connection, source, tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == CONTENT.read(0, SIZE)
    record = read_record(tmp_path / FILE)
    assert record is not None and record.sha256 == CONTENT.sha256
    assert transfer.received < 1.1 * SIZE
    bridge = hub.seen("files", "/xet-bridge-us/")
    assert len(bridge) == len(hub.seen("files")) == 4
    assert not any("authorization" in request.headers for request in bridge)
    assert not hub.seen("hub", "xet-read-token")


def test_a_wrong_byte_from_the_bridge_is_found(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, CONTENT, xet=True)
    hub.faults.append(Fault(flip=SIZE // 2))
    with pytest.raises(VerificationError):
        fetch(connect(), source, tmp_path / FILE)
    assert not (tmp_path / FILE).exists()


def test_headers_are_read_through_the_bridge(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, Bytes(small_gguf().build()), xet=True)
    assert remote_header(connect(), source, tmp_path).metadata.string("general.name", "") == "Small Model"
    assert len(hub.seen("files", "/xet-bridge-us/")) == 1


def test_a_mirror_may_serve_the_file_itself(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    hub.same_host = True
    source = publish(hub, CONTENT, xet=True)
    hub.faults.append(Fault(after=1000, then="cut"))
    fetch(connect(), source, tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == CONTENT.read(0, SIZE)
