"""A whole tiny transformer against numpy: fused and not, any threads, split into segments, several sequences."""

from __future__ import annotations

import gc
import mmap
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from tests.support import program_reference as ref

VOCAB, WIDTH, HEADS, KV_HEADS, DIM, FFN, LAYERS, BLOCK = 61, 48, 4, 2, 12, 80, 2, 4
FREQUENCIES = (10000.0 ** (-np.arange(DIM // 2) / (DIM // 2))).astype(np.float32)


@dataclass
class Tiny:
    """Random float32 weights of a small llama with biases and q/k norm."""

    weights: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def make(cls) -> Tiny:
        rng = np.random.default_rng(7)
        w: dict[str, NDArray[np.float32]] = {}

        def matrix(name: str, rows: int, cols: int) -> None:
            w[name] = (rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)

        def vector(name: str, size: int, around: float) -> None:
            w[name] = (around + 0.1 * rng.standard_normal(size)).astype(np.float32)

        matrix("embed", VOCAB, WIDTH)
        w["embed"] *= np.float32(np.sqrt(WIDTH))
        matrix("head", VOCAB, WIDTH)
        vector("norm", WIDTH, 1)
        for i in range(LAYERS):
            for name, rows, cols in (
                ("q", HEADS * DIM, WIDTH), ("k", KV_HEADS * DIM, WIDTH), ("v", KV_HEADS * DIM, WIDTH),
                ("o", WIDTH, HEADS * DIM), ("gate", FFN, WIDTH), ("up", FFN, WIDTH), ("down", WIDTH, FFN),
            ):  # fmt: skip
                matrix(f"{i}.{name}", rows, cols)
            vector(f"{i}.q.bias", HEADS * DIM, 0)
            vector(f"{i}.qnorm", DIM, 1)
            vector(f"{i}.knorm", DIM, 1)
            vector(f"{i}.norm1", WIDTH, 1)
            vector(f"{i}.norm2", WIDTH, 1)
        return cls(w)

    def logits(self, tokens: list[int]) -> NDArray[np.float64]:
        w = self.weights
        x = w["embed"][tokens].astype(np.float64)
        positions = np.arange(len(tokens))
        for i in range(LAYERS):
            n = ref.rms_norm(x, w[f"{i}.norm1"], 1e-5)
            q, k, v = (n @ w[f"{i}.{m}"].T.astype(np.float64) for m in "qkv")
            q = (q + w[f"{i}.q.bias"]).reshape(-1, HEADS, DIM)
            q = ref.rope(ref.rms_norm(q, w[f"{i}.qnorm"], 1e-5), positions, FREQUENCIES, "neox")
            k = ref.rms_norm(k.reshape(-1, KV_HEADS, DIM), w[f"{i}.knorm"], 1e-5)
            k, v = ref.rope(k, positions, FREQUENCIES, "neox"), v.reshape(-1, KV_HEADS, DIM)
            a = np.stack([ref.attention(q[t], k, v, DIM**-0.5, 0, t) for t in positions])
            x = x + a.reshape(len(tokens), -1) @ w[f"{i}.o"].T
            n = ref.rms_norm(x, w[f"{i}.norm2"], 1e-5)
            x = x + (ref.silu(n @ w[f"{i}.gate"].T) * (n @ w[f"{i}.up"].T)) @ w[f"{i}.down"].T
        return ref.rms_norm(x, w["norm"], 1e-5) @ w["head"].T.astype(np.float64)


@dataclass
class Captured:
    program: _cpu.Program
    logits: int
    cuts: list[int]  # operation counts after each layer


def capture(tiny: Tiny, fuse: bool = True, kv_type: int = ref.F32, blocks: int = 16, keep_all: bool = True) -> Captured:
    p = _cpu.Program()
    w = {name: ref.bound_weight(p, array) for name, array in tiny.weights.items()}
    x, n, a = p.value(WIDTH), p.value(WIDTH), p.value(HEADS * DIM)
    q, k, v = p.value(HEADS * DIM), p.value(KV_HEADS * DIM), p.value(KV_HEADS * DIM)
    gate, up, act, y = p.value(FFN), p.value(FFN), p.value(FFN), p.value(WIDTH)
    row_bytes = {ref.F32: 4 * DIM, ref.F16: 2 * DIM}[kv_type]
    cuts = []
    p.embed(w["embed"], x)
    for i in range(LAYERS):
        kv = p.kv_layer(KV_HEADS, DIM, DIM, kv_type, BLOCK)
        p.bind_kv(kv, *(np.zeros((blocks, KV_HEADS, BLOCK, row_bytes), np.uint8) for _ in range(2)))
        p.rms_norm(x, w[f"{i}.norm1"], n, 1e-5)
        p.linear(n, [w[f"{i}.q"], w[f"{i}.k"], w[f"{i}.v"]], [w[f"{i}.q.bias"], None, None], [q, k, v])
        p.rms_norm(q, w[f"{i}.qnorm"], q, 1e-5, DIM)
        p.rms_norm(k, w[f"{i}.knorm"], k, 1e-5, DIM)
        p.rope(q, HEADS, DIM, DIM, "neox", FREQUENCIES)
        p.rope(k, KV_HEADS, DIM, DIM, "neox", FREQUENCIES)
        p.attention(q, k, v, kv, a, HEADS, DIM**-0.5)
        p.linear(a, [w[f"{i}.o"]], [], [y])
        p.add(x, y, x)
        p.rms_norm(x, w[f"{i}.norm2"], n, 1e-5)
        p.linear(n, [w[f"{i}.gate"], w[f"{i}.up"]], [], [gate, up])
        p.glu(gate, up, act)
        p.linear(act, [w[f"{i}.down"]], [], [y])
        p.add(y, x, x)
        cuts.append(p.operation_count)
    last, normed, logits = p.value(WIDTH), p.value(WIDTH), p.value(VOCAB)
    p.select_rows(x, last)
    p.rms_norm(last, w["norm"], normed, 1e-5)
    p.linear(normed, [w["head"]], [], [logits])
    p.finish(fuse, None if keep_all else [logits])
    return Captured(p, logits, cuts)


@pytest.fixture(scope="module")
def tiny() -> Tiny:
    return Tiny.make()


TOKENS = [3, 60, 0, 17, 17, 42, 5, 9, 33, 28, 1]
TABLE = [[5, 0, 9]]  # blocks of BLOCK positions, out of order


def prefill(c: Captured, pool: _cpu.ThreadPool, tokens: list[int] = TOKENS) -> NDArray[np.float32]:
    everything = list(range(len(tokens)))
    c.program.run(pool, ref.batch(everything, tables=TABLE, tokens=tokens, outputs=everything))
    return np.array(c.program.read(c.logits))


@pytest.mark.parametrize("fuse", [True, False])
def test_prefill_matches_numpy(tiny: Tiny, fuse: bool) -> None:
    got = prefill(capture(tiny, fuse), _cpu.ThreadPool(2))
    np.testing.assert_allclose(got, tiny.logits(TOKENS), rtol=0, atol=2e-5)


def test_fused_steps_give_the_same_bits(tiny: Tiny) -> None:
    pool = _cpu.ThreadPool(1)
    fused, single = capture(tiny), capture(tiny, fuse=False)
    assert fused.program.step_count < single.program.step_count == single.program.operation_count
    np.testing.assert_array_equal(prefill(fused, pool), prefill(single, pool))


@pytest.mark.parametrize("fuse", [True, False])
def test_token_by_token_matches_prefill(tiny: Tiny, fuse: bool) -> None:
    c, pool = capture(tiny, fuse), _cpu.ThreadPool(2)
    rows = []
    for position, token in enumerate(TOKENS):
        c.program.run(pool, ref.batch([position], tables=TABLE, tokens=[token], outputs=[0]))
        rows.append(np.array(c.program.read(c.logits))[0])
    np.testing.assert_allclose(np.stack(rows), tiny.logits(TOKENS), rtol=0, atol=2e-5)


def test_sequences_share_a_batch(tiny: Tiny) -> None:
    """Two sequences, interleaved, at different depths; each gets the logits it would get alone."""
    c, pool = capture(tiny), _cpu.ThreadPool(2)
    other = [8, 8, 50, 2, 11, 44]
    tables = [[5, 0, 9], [7, 2, 1]]
    c.program.run(pool, ref.batch([0, 1, 2], [1, 1, 1], tables, other[:3], outputs=[]))
    positions, sequences, tokens = [0, 3, 1, 4, 2, 5], [0, 1, 0, 1, 0, 1], [3, 2, 60, 11, 0, 44]
    c.program.run(pool, ref.batch(positions, sequences, tables, tokens, outputs=[5, 4, 0]))
    got = c.program.read(c.logits)
    np.testing.assert_allclose(got[0], tiny.logits(other)[5], rtol=0, atol=2e-5)
    np.testing.assert_allclose(got[1:], tiny.logits(TOKENS[:3])[[2, 0]], rtol=0, atol=2e-5)


def test_threads_do_not_change_bits(tiny: Tiny) -> None:
    results = [prefill(capture(tiny), _cpu.ThreadPool(n)) for n in (1, 2, 3, 4)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_segments_give_the_same_bits(tiny: Tiny) -> None:
    pool, whole = _cpu.ThreadPool(2), prefill(capture(tiny), _cpu.ThreadPool(2))
    everything = list(range(len(TOKENS)))
    b = ref.batch(everything, tables=TABLE, tokens=TOKENS, outputs=everything)
    for cuts in (capture(tiny).cuts, list(range(1, capture(tiny).program.operation_count))):
        c = capture(tiny)
        for begin, end in zip([0, *cuts], [*cuts, -1], strict=True):
            c.program.run(pool, b, begin, end)
        np.testing.assert_array_equal(c.program.read(c.logits), whole)


@pytest.mark.parametrize("fuse", [True, False])
def test_values_that_share_memory_give_the_same_bits(tiny: Tiny, fuse: bool) -> None:
    """However the operations are cut into runs, and with more tokens than before."""
    pool, whole = _cpu.ThreadPool(2), prefill(capture(tiny, fuse), _cpu.ThreadPool(2))
    everything = list(range(len(TOKENS)))
    cut_at_all = list(range(1, capture(tiny).program.operation_count))
    for cuts in ([], capture(tiny).cuts, cut_at_all):
        c = capture(tiny, fuse, keep_all=False)
        for count in (2, len(TOKENS)):
            b = ref.batch(everything[:count], tables=TABLE, tokens=TOKENS[:count], outputs=everything[:count])
            for begin, end in zip([0, *cuts], [*cuts, -1], strict=True):
                c.program.run(pool, b, begin, end)
        np.testing.assert_array_equal(c.program.read(c.logits), whole)


def test_values_that_share_memory_are_not_read_or_written(tiny: Tiny) -> None:
    c, pool = capture(tiny, fuse=False, keep_all=False), _cpu.ThreadPool(1)
    prefill(c, pool)
    with pytest.raises(ValueError, match="read: value 0 shares its memory"):
        c.program.read(0)
    with pytest.raises(ValueError, match="write: value 0 shares its memory"):
        c.program.write(0, np.zeros((1, WIDTH), np.float32))


def test_values_that_nobody_writes_first_are_kept() -> None:
    p = _cpu.Program()
    x, y, z = (p.value(16) for _ in range(3))
    p.add(x, x, y)
    p.add(y, x, z)
    p.finish(kept=[z])
    p.write(x, np.ones((3, 16), np.float32))
    p.run(_cpu.ThreadPool(1), ref.batch(range(3), tables=[[0]]))
    assert (p.read(z) == 3).all() and (p.read(x) == 1).all()
    with pytest.raises(ValueError, match="finish: there is no value 7"):
        _cpu.Program().finish(kept=[7])


def test_outputs_name_the_rows(tiny: Tiny) -> None:
    c, pool = capture(tiny), _cpu.ThreadPool(1)
    whole = prefill(c, pool)
    positions = list(range(len(TOKENS)))
    for outputs in ([4, 2], [], [10]):
        c.program.run(pool, ref.batch(positions, tables=TABLE, tokens=TOKENS, outputs=outputs))
        got = c.program.read(c.logits)
        assert got.shape == (len(outputs), VOCAB)
        np.testing.assert_allclose(got, whole[outputs], rtol=0, atol=1e-6)


def test_half_precision_cache(tiny: Tiny) -> None:
    got = prefill(capture(tiny, kv_type=ref.F16), _cpu.ThreadPool(2))
    np.testing.assert_allclose(got, tiny.logits(TOKENS), rtol=0, atol=2e-2)
    assert np.abs(got - tiny.logits(TOKENS)).max() > 1e-5  # it really is half precision


def test_rebinding_between_runs(tiny: Tiny) -> None:
    p = _cpu.Program()
    table, x = p.weight(ref.F32, 2, 3), p.value(3)
    p.embed(table, x)
    p.finish()
    pool = _cpu.ThreadPool(1)
    for value in (1.0, 2.0):
        p.bind_weight(table, np.full((2, 3), value, np.float32))
        gc.collect()
        p.run(pool, ref.batch([0], tokens=[1]))
        assert p.read(x).tolist() == [[value] * 3]


def test_bound_memory_stays_alive_until_rebound() -> None:
    p = _cpu.Program()
    table = p.weight(ref.F32, 4, 8)
    memory = mmap.mmap(-1, 4096)
    p.bind_weight(table, memory, 256)
    with pytest.raises(BufferError):
        memory.close()
    p.bind_weight(table, np.zeros((4, 8), np.float32))
    memory.close()


def test_a_view_outlives_the_program() -> None:
    p = _cpu.Program()
    x = p.value(2048)
    p.scale(x, 2.0)
    p.finish()
    p.write(x, np.ones((300, 2048), np.float32))
    p.run(_cpu.ThreadPool(1), ref.batch(range(300), tables=[[0]]))
    view = p.read(x)
    p.run(_cpu.ThreadPool(1), ref.batch(range(301), tables=[[0]]))  # a larger arena
    del p
    gc.collect()
    assert (view == 2).all()


def test_memory_given_back_is_taken_again(tiny: Tiny) -> None:
    """A run after `trim` gives the same bits in as much memory as it needs; rows that are held outlive it."""
    c, pool = capture(tiny, keep_all=False), _cpu.ThreadPool(2)
    whole = prefill(c, pool)
    held, rows = c.program.held_bytes, c.program.read(c.logits)
    assert held > 0
    c.program.trim()
    assert c.program.held_bytes == 0
    np.testing.assert_array_equal(rows, whole)
    with pytest.raises(ValueError, match=r"nothing has run yet, or not since trim\(\)"):
        c.program.read(c.logits)
    np.testing.assert_array_equal(prefill(c, pool, TOKENS[:1]), prefill(capture(tiny), pool, TOKENS[:1]))
    assert 0 < c.program.held_bytes < held
    np.testing.assert_array_equal(prefill(c, pool), whole)
    assert c.program.held_bytes == held
    np.testing.assert_array_equal(rows, whole)


def test_nothing_is_read_of_a_run_before_trim() -> None:
    p = _cpu.Program()
    x = p.value(16)
    p.scale(x, 2.0)
    p.finish()
    p.write(x, np.ones((300, 16), np.float32))
    p.run(_cpu.ThreadPool(1), ref.batch(range(300), tables=[[0]]))
    p.trim()
    p.write(x, np.ones((2, 16), np.float32))  # room for two rows, not for 300
    assert p.read(x).shape == (0, 16)
    p.run(_cpu.ThreadPool(1), ref.batch(range(2), tables=[[0]]))
    assert (p.read(x) == np.full((2, 16), 2)).all()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells resident memory on Linux only")
@pytest.mark.parametrize(("programs", "rows"), [(1, 4096), (32, 128)])
def test_memory_given_back_is_the_systems(programs: int, rows: int) -> None:
    """16 MiB, in one piece or in pieces of 512 KiB, which an allocator would keep."""
    made, pool = [], _cpu.ThreadPool(1)
    for _ in range(programs):
        p = _cpu.Program()
        x = p.value(1024)
        p.scale(x, 2.0)
        p.finish()
        p.write(x, np.ones((rows, 1024), np.float32))
        p.run(pool, ref.batch(range(rows), tables=[[0]]))
        made.append(p)
    size = sum(p.held_bytes for p in made)
    assert size >= 16 << 20
    before = resident_bytes()
    for p in made:
        p.trim()
    assert before - resident_bytes() > size * 3 // 4


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_one_run_at_a_time(tiny: Tiny) -> None:
    """While a program runs in one thread, other threads' attempts to change it are refused or happen before it."""
    c, pool = capture(tiny), _cpu.ThreadPool(1)
    b = ref.batch(range(11), tables=TABLE, tokens=TOKENS, outputs=[0])
    refusals, stop = [], threading.Event()

    def interfere(action: Callable[[], object]) -> None:
        while not stop.is_set():
            try:
                action()
            except RuntimeError as error:
                refusals.append(str(error))

    table = np.zeros_like(tiny.weights["norm"])
    threads = [
        threading.Thread(target=interfere, args=(action,))
        for action in (
            lambda: c.program.bind_weight(2, table),
            lambda: c.program.run(_cpu.ThreadPool(1), b),
            c.program.trim,
        )
    ]
    for thread in threads:
        thread.start()
    for _ in range(200):
        try:
            c.program.run(pool, b)
        except RuntimeError as error:
            refusals.append(str(error))
    stop.set()
    for thread in threads:
        thread.join()
    assert all("is running in another thread" in text for text in refusals)
