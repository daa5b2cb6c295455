"""Models with mutated headers, metadata and weights, run by our own engine: refused by name, or they compute.

What a file holds must never crash the process: not-a-number weights and router scores, norms of zero, sizes that
disagree. The quick form runs in the suite; `--soak` runs for five minutes with new seeds.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engine.errors import FormatError, UnsupportedError
from tests.fuzz.test_gguf_headers import NUMBERS
from tests.support.native_model import NativeModel
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import FAMILIES, TinyModel, tiny_model_builder
from tests.support.tiny_qwen3next import TinyQwen3Next

QUICK_RUNS = 600
SOAK_SECONDS = 300
TOKENS = [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def originals(starter_model: Path) -> list[tuple[bytes, int]]:
    """Small models, and how long their headers are."""
    sizes = {"layers": 1, "vocabulary": 280, "feed_forward": 256, "experts": 4, "experts_used": 2}
    models = [TinyModel(family, mix, **sizes) for family in FAMILIES for mix in ("Q4_K_M", "all")]  # type: ignore[arg-type]
    small = {"mix": "Q8_0", "layers": 2, "vocabulary": 280, "experts": 4}
    models += [TinyDeepSeek2(**small), TinyDeepSeek2(**small, split=False, dense_layers=0), TinyQwen3Next(**small)]  # type: ignore[arg-type]
    builders = [tiny_model_builder(model, starter_model) for model in models]
    return [(builder.build(), len(builder.header())) for builder in builders]


def mutated(seed: int, originals: list[tuple[bytes, int]]) -> bytes:
    """Numbers set near the header's start (the sizes) or end (the tensors), or bytes and whole tensors' weights."""
    rng = random.Random(seed)
    content, header = rng.choice(originals)
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.choice(("sizes", "tensors", "bytes", "run"))
        if kind in ("sizes", "tensors"):
            at = rng.randrange(24, 1200) if kind == "sizes" else rng.randrange(header - 1500, header)
            data[at : at + 4] = rng.choice((*NUMBERS, rng.randrange(600))).to_bytes(8, "little")[:4]
        elif kind == "bytes":
            for _ in range(200):
                data[rng.randrange(header, len(data))] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        else:
            begin = rng.randrange(header, len(data))
            size = rng.randrange(1, 1 << 16)
            data[begin : begin + size] = bytes([rng.choice((0, 0x7C, 0x7F, 0xFF))]) * len(data[begin : begin + size])
    return bytes(data)


def run_or_refuse(path: Path) -> str:
    """ "finite", "not finite", or the refusal's name; any other exception is a failure."""
    try:
        model = NativeModel(path, threads=1)
    except (FormatError, UnsupportedError) as error:
        return type(error).__name__
    logits = model.logits(TOKENS)
    assert logits.shape[0] == len(TOKENS)
    return "finite" if np.isfinite(logits).all() else "not finite"


@pytest.mark.timeout(SOAK_SECONDS + 120)
def test_mutated_models_run_or_are_refused(tmp_path: Path, originals: list[tuple[bytes, int]], soak: bool) -> None:
    start, count, seconds = (random.randrange(2**40), 10**9, SOAK_SECONDS) if soak else (0, QUICK_RUNS, 60)
    until = time.monotonic() + seconds
    outcomes: Counter[str] = Counter()
    path = tmp_path / "m.gguf"
    for seed in range(start, start + count):
        if time.monotonic() > until:
            break
        path.write_bytes(mutated(seed, originals))
        (tmp_path / "seed").write_text(str(seed))  # what a crash leaves behind, beside the file
        try:
            outcomes[run_or_refuse(path)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}; kept as {path}") from error
    print(f"{outcomes.total()} models: {dict(outcomes)}")
    for outcome in ("finite", "not finite", "FormatError"):
        assert outcomes[outcome] > outcomes.total() // 100, outcomes
