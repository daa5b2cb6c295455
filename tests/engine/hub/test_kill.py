"""Kill -9 at random points of a download: every one resumes, and hardly a byte is fetched twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from engine.hub.connection import READ_BYTES, Connection
from engine.hub.journal import part_path
from tests.engine.hub.conftest import fetch, publish
from tests.support.hub_content import Noise
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub
from tests.support.hub_zygote import Zygote

MIB = 1 << 20
SEED = 20261129
# Bytes that were under way when the client died: they left the server and never reached the disk. A block of the
# client's, and on a busy machine what both ends of the connection hold in their buffers.
IN_FLIGHT = 8 * MIB


def test_kill_9_at_random_points(hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path, soak: bool) -> None:
    """100 kills of 200 MB with --soak, 8 kills of 24 MB otherwise; the same points in every run."""
    kills, size = (100, 200 * MIB) if soak else (8, 24 * MIB)
    draw = random.Random(SEED)
    content = Noise(size)
    source = publish(hub, content)
    points = sorted(draw.randrange(size * 49 // 50) for _ in range(kills))
    target = tmp_path / "Model-Q4_K_M.gguf"
    part = part_path(target)
    hub.every = lambda n: Fault(rate=80e6)  # slow enough that no download is over before it is killed
    fetched_by_clients = killed = 0
    with Zygote() as zygote:
        for point in points:
            before = part.stat().st_size if part.exists() else 0
            pid = zygote.start(hub.url, source, target)
            deadline = time.monotonic() + 60
            while (part.stat().st_size if part.exists() else 0) < point and time.monotonic() < deadline:
                time.sleep(0.0005)
            zygote.kill(pid)
            assert not target.exists()
            killed += 1
            after = part.stat().st_size
            assert after >= before, "nothing that was there is lost"
            fetched_by_clients += after - before + READ_BYTES
    transfer = fetch(connect(), source, target)
    assert target.stat().st_size == size
    assert target.read_bytes()[-1000:] == content.read(size - 1000, size)
    assert killed == kills
    total = fetched_by_clients + transfer.received
    kept, sent = (total - kills * READ_BYTES) / size, hub.sent / size
    print(f"{kills} kills of {size >> 20} MiB, a chunk is {READ_BYTES >> 20} MiB; in MiB, at the server:")
    bound = (1.05 * size + kills * READ_BYTES) / MIB
    print(f"{hub.sent / MIB:.1f} sent ({sent:.3f} of the size) <= {bound:.1f} = 1.05 x size + one chunk per kill:")
    print(f"{hub.sent / MIB <= bound}; {kept:.3f} of the size came to the disk, all of it kept")
    assert total <= 1.05 * size + kills * READ_BYTES
    assert hub.sent <= 1.05 * size + kills * IN_FLIGHT
