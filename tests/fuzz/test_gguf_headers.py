"""Mutated GGUF headers: each opens, or is refused by name; memory stays bounded and the process alive.

The quick form runs in the suite; `--soak` runs for ten minutes with new seeds. A failure prints the seed and the
mutation, and keeps the file in the test's folder.
"""

from __future__ import annotations

import contextlib
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile, QuantType
from engine.gguf.describe import describe_file, to_json
from engine.gguf.describe_text import to_text
from engine.models import load_spec
from tests.support.gguf_writer import GGUFBuilder, ValueType
from tests.support.tiny_models import TinyModel, tiny_model_builder

QUICK_MUTATIONS = 3000
SOAK_SECONDS = 600
MEMORY_MUTATIONS = 400
NUMBERS = (0, 1, 2, 7, 8, 9, 12, 13, 31, 32, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62,
           2**63 - 1, 2**63, 2**64 - 32, 2**64 - 8, 2**64 - 1)  # fmt: skip


@pytest.fixture(scope="module")
def originals(starter_model: Path) -> list[bytes]:
    """Sound files of several kinds, with small data, so that most mutations meet the header."""
    every = GGUFBuilder("llama", alignment=64).add_all(
        {"text": "ä" * 50, "no": -5, "list": [1, 2, 3], "f": 0.5, "b": True}
    )
    every.add("strings", ["x", "", "yyyy"] * 20).add("d", 0.5, ValueType.F64).add("empty", [])
    for index, kind in enumerate((QuantType.F32, QuantType.Q4_0, QuantType.Q6_K, QuantType.IQ4_XS, QuantType.MXFP4)):
        every.tensor(f"blk.{index}.w", (2, 256), kind)
    old = GGUFBuilder("qwen2", version=2).tensor_raw("odd", (8, 8), 77, bytes(64)).tensor("t", (3, 5, 7, 2))
    split = GGUFBuilder().add("split.no", 0, ValueType.U16).add("split.count", 1, ValueType.U16).tensor("t", (64,))
    model = tiny_model_builder(TinyModel("qwen3moe", "Q4_K_M", layers=1, vocabulary=280, experts=2), starter_model)
    return [every.build(), old.build(), split.build(), model.build(), GGUFBuilder().build()]


def mutate(data: bytearray, rng: random.Random, others: list[bytes]) -> str:
    """Changes `data` in place, mostly within its first part, and says how."""
    reach = len(data) if rng.random() < 0.2 else min(len(data), rng.choice((64, 400, 3000)))
    at = rng.randrange(max(reach, 1))
    kind = rng.choice(("bit", "byte", "u32", "u64", "u64", "cut", "insert", "remove", "copy", "splice"))
    if kind == "bit":
        data[at] ^= 1 << rng.randrange(8)
    elif kind == "byte":
        data[at] = rng.randrange(256)
    elif kind in ("u32", "u64"):
        size = int(kind[1:]) // 8
        value = rng.choice((*NUMBERS, len(data), len(data) - at, rng.randrange(2**64)))
        data[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
    elif kind == "cut":
        del data[at:]
    elif kind == "insert":
        data[at:at] = rng.randbytes(rng.randrange(1, 20))
    elif kind == "remove":
        del data[at : at + rng.randrange(1, 20)]
    elif kind == "copy":
        begin = rng.randrange(len(data))
        data[at : at + 16] = data[begin : begin + 16]
    else:
        data[at:] = rng.choice(others)[at:]
    return f"{kind} at {at}"


def mutation(seed: int, originals: list[bytes]) -> tuple[bytes, str]:
    rng = random.Random(seed)
    data = bytearray(rng.choice(originals))
    changes = []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if data:
            changes.append(mutate(data, rng, originals))
    return bytes(data), f"seed {seed}: {', '.join(changes)}"


def read_everything(file: GGUFFile) -> None:
    """Touches all that a user of the file would touch."""
    for key in file.metadata:
        value = file.metadata[key]
        if not isinstance(value, int | float | str):
            list(value)
    for name, info in file.tensors.items():
        buffer = file.buffer(name)
        assert len(buffer) == info.n_bytes
        if info.n_bytes:
            np.frombuffer(buffer, np.uint8).max()
    description = describe_file(file)
    to_json(description)
    to_text(description)
    with contextlib.suppress(FormatError, UnsupportedError):
        load_spec(file)
    file.check_unchanged()


def open_or_refuse(path: Path) -> str:
    """ "opened", or the refusal's name. Any other exception is a failure."""
    try:
        file = GGUFFile.open(path)
    except (FormatError, UnsupportedError) as error:
        assert path.name in str(error)
        assert error.cause.isprintable()
        return type(error).__name__
    with file:
        read_everything(file)
    return "opened"


def run(path: Path, seeds: Callable[[int], int], count: int, until: float, originals: list[bytes]) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for index in range(count):
        if time.monotonic() > until:
            break
        data, what = mutation(seeds(index), originals)
        path.write_bytes(data)
        try:
            outcomes[open_or_refuse(path)] += 1
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}; kept as {path}") from error
    return outcomes


@pytest.mark.timeout(SOAK_SECONDS + 120)
def test_mutated_headers_open_or_are_refused(tmp_path: Path, originals: list[bytes], soak: bool) -> None:
    for index, data in enumerate(originals):
        path = tmp_path / f"original{index}.gguf"
        path.write_bytes(data)
        assert open_or_refuse(path) == "opened"
    if soak:
        start = random.randrange(2**40)
        outcomes = run(tmp_path / "m.gguf", lambda i: start + i, 10**9, time.monotonic() + SOAK_SECONDS, originals)
    else:
        outcomes = run(tmp_path / "m.gguf", lambda i: i, QUICK_MUTATIONS, time.monotonic() + 60, originals)
    print(f"{outcomes.total()} mutations: {dict(outcomes)}")
    for outcome in ("opened", "FormatError", "TruncatedFileError", "UnsupportedError"):
        assert outcomes[outcome] > outcomes.total() // 200, outcomes  # the mutations reach every kind of end


def test_memory_stays_within_a_few_times_the_file(tmp_path: Path, originals: list[bytes]) -> None:
    """What opening allocates, successful or not, against the file's size: headers, not announced counts, cost."""
    path = tmp_path / "m.gguf"
    tracemalloc.start()
    try:
        for seed in range(10**6, 10**6 + MEMORY_MUTATIONS):
            data, what = mutation(seed, originals)
            path.write_bytes(data)
            size = len(data)
            del data
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(EngineError):
                GGUFFile.open(path).close()
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 4 * size + (64 << 10), f"{what}: {peak} bytes for a file of {size}"
    finally:
        tracemalloc.stop()
