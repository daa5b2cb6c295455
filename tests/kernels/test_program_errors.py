"""Everything a caller can get wrong is refused by name, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernels import _cpu
from tests.support import program_reference as ref

HALVES = np.ones(4, np.float32)


class Handles:
    """A program with one handle of every kind and some widths."""

    def __init__(self) -> None:
        self.p = _cpu.Program()
        self.v8, self.w8, self.v16, self.v32, self.k = (self.p.value(n) for n in (8, 8, 16, 32, 4))
        self.matrix = self.p.weight(ref.F32, 16, 8)
        self.vector = self.p.weight(ref.F32, 1, 8)
        self.half = self.p.weight(ref.F16, 1, 8)
        self.stack = self.p.weight(ref.F32, 16, 8, 3)
        self.down = self.p.weight(ref.F32, 8, 16, 3)
        self.kv = self.p.kv_layer(2, 8, 8, ref.F16, 4)
        self.ids = self.p.value(4, ids=True)


BAD_RECORDINGS: dict[str, Callable[[Handles], object]] = {
    "value width must be 1": lambda h: h.p.value(0),
    "unknown type 999": lambda h: h.p.weight(999, 1, 32),
    "no multiple of the 32 of a Q4_0 block": lambda h: h.p.weight(2, 1, 33),
    "more than 2\\^60 bytes": lambda h: h.p.weight(0, 1 << 24, 1 << 24, 1 << 14),
    "rows must be 1": lambda h: h.p.weight(0, -3, 32),
    "count must be 1": lambda h: h.p.weight(0, 3, 32, 0),
    "must be of type F32, F16 or Q8_0": lambda h: h.p.kv_layer(1, 8, 8, 12, 16),
    "multiples of 32, not 8": lambda h: h.p.kv_layer(1, 8, 8, ref.Q8_0, 16),
    "block_tokens must be 1": lambda h: h.p.kv_layer(1, 8, 8, ref.F16, 0),
    "embed: table names weight 77": lambda h: h.p.embed(77, h.v8),
    "embed: out's width is 16, not 8": lambda h: h.p.embed(h.matrix, h.v16),
    "embed: table's count is 3": lambda h: h.p.embed(h.stack, h.v8),
    "rms_norm: x names value -1": lambda h: h.p.rms_norm(-1, h.vector, h.v8, 1e-5),
    "rms_norm: weight .* must be one row of F32": lambda h: h.p.rms_norm(h.v8, h.half, h.v8, 1e-5),
    "rms_norm: the size of weight is 8, not 16": lambda h: h.p.rms_norm(h.v16, h.vector, h.v16, 1e-5),
    "rms_norm: group must divide": lambda h: h.p.rms_norm(h.v8, h.vector, h.v8, 1e-5, 3),
    "rms_norm: groups must be 0..2, not 3": lambda h: h.p.rms_norm(h.v16, h.vector, h.v16, 1e-5, 8, 3),
    "rms_norm: epsilon must not be negative": lambda h: h.p.rms_norm(h.v8, h.vector, h.v8, -1.0),
    "rms_norm: epsilon must be finite": lambda h: h.p.rms_norm(h.v8, h.vector, h.v8, float("inf")),
    "linear: takes 1..64 weights": lambda h: h.p.linear(h.v8, [], [], []),
    "linear: the number of outs is 2": lambda h: h.p.linear(h.v8, [h.matrix], [], [h.v16, h.v32]),
    "linear: the number of biases is 2": lambda h: h.p.linear(h.v8, [h.matrix], [None, None], [h.v16]),
    "linear: weight 0's cols is 8, not 16": lambda h: h.p.linear(h.v16, [h.matrix], [], [h.v16]),
    "linear: value 3's width is 32, not 16": lambda h: h.p.linear(h.v8, [h.matrix], [], [h.v32]),
    "linear: outs must differ": lambda h: h.p.linear(h.v8, [h.matrix] * 2, [], [h.v16, h.v16]),
    "linear: the size of biases is 8": lambda h: h.p.linear(h.v8, [h.matrix], [h.vector], [h.v16]),
    "linear: biases names weight -7": lambda h: h.p.linear(h.v8, [h.matrix], [-7], [h.v16]),
    "linear: x names value 5, which holds ids": lambda h: h.p.linear(h.ids, [h.matrix], [], [h.v16]),
    "rope: mode must be norm or neox": lambda h: h.p.rope(h.v8, 1, 8, 8, "odd", HALVES),  # type: ignore[arg-type]
    "rope: x's width is 8, not 16": lambda h: h.p.rope(h.v8, 2, 8, 8, "norm", HALVES),
    "rope: rope_dim must be even": lambda h: h.p.rope(h.v8, 1, 8, 7, "norm", HALVES),
    "rope: rope_dim must be even and 2..8, not 10": lambda h: h.p.rope(h.v8, 1, 8, 10, "norm", HALVES),
    "rope: the number of frequencies is 4, not 3": lambda h: h.p.rope(h.v8, 1, 8, 6, "norm", HALVES),
    "rope: every frequency must be finite": lambda h: h.p.rope(h.v8, 1, 8, 8, "norm", HALVES * np.float32("nan")),
    "rope: heads and head_dim must be positive": lambda h: h.p.rope(h.v8, -1, -8, 8, "norm", HALVES),
    "rope: offset must be 0..2, not 3": lambda h: h.p.rope(h.v8, 1, 8, 6, "norm", HALVES[:3], 1.0, 3),
    "head_linear: heads must divide": lambda h: h.p.head_linear(h.v8, h.matrix, h.v16, 3, 0, 1),
    "head_linear: a head has 8 rows, fewer than 4 and 5": lambda h: h.p.head_linear(h.v16, h.matrix, h.v8, 2, 4, 5),
    "head_linear: x's heads have 4 values": lambda h: h.p.head_linear(h.v8, h.matrix, h.v16, 2, 0, 8),
    "head_linear: the size of out's heads is 8, not 7": lambda h: h.p.head_linear(h.v16, h.matrix, h.v16, 2, 0, 7),
    "table must not be negative": lambda h: h.p.kv_layer(1, 8, 8, ref.F16, 4, False, -1),
    "rope: temperature must be finite": lambda h: h.p.rope(h.v8, 1, 8, 8, "norm", HALVES, 1.0, 0, (0.0, 1.0, 0.0)),
    "a latent layer's values are a part of its keys": lambda h: h.p.kv_layer(1, 8, 9, ref.F16, 4, True),
    "attention: a latent layer's v is its k": lambda h: h.p.attention(
        h.v8, h.w8, h.v8, h.p.kv_layer(1, 8, 8, ref.F16, 4, True), h.v16, 1, 1.0
    ),
    "attention: kv names layer 4": lambda h: h.p.attention(h.v32, h.v16, h.v16, 4, h.v32, 4, 1.0),
    "attention: heads must be a multiple of the 2": lambda h: h.p.attention(h.v32, h.v16, h.v16, h.kv, h.v32, 3, 1.0),
    "attention: q's width is 16, not 32": lambda h: h.p.attention(h.v16, h.v16, h.v16, h.kv, h.v32, 4, 1.0),
    "attention: out must be a value of its own": lambda h: h.p.attention(h.v32, h.v16, h.v16, h.kv, h.v32, 4, 1.0),
    "glu: out's width is 8, not 16": lambda h: h.p.glu(h.v8, h.v16, h.w8),
    "glu: gate's width 16 must divide up's width 8": lambda h: h.p.glu(h.v16, h.v8, h.v8),
    "glu: activation must be silu, gelu, sigmoid, swiglu_oai or linear": lambda h: h.p.glu(h.v8, h.w8, h.v8, "relu"),  # type: ignore[arg-type]
    "router: top_k must be 1..8, not 9": lambda h: h.p.router(h.v8, h.ids, h.k, 9),
    "router: out_ids' width is 4, not 3": lambda h: h.p.router(h.v8, h.ids, h.k, 3),
    "router: out_weights names value 5, which holds ids": lambda h: h.p.router(h.v8, h.ids, h.ids, 4),
    "router: its three values must differ": lambda h: h.p.router(h.k, h.k, h.p.value(4), 4),
    "router: groups must be 1..32 and divide the 8 experts, not 3": lambda h: h.p.router(h.v8, h.ids, h.k, 4, groups=3),
    "router: groups_used must be 1..4 and hold top_k experts, not 1": lambda h: h.p.router(
        h.v8, h.ids, h.k, 4, groups=4
    ),
    "router: the size of bias is 8, not 16": lambda h: h.p.router(h.v16, h.ids, h.k, 4, bias=h.vector),
    "router: gating must be": lambda h: h.p.router(h.v8, h.ids, h.k, 4, "max"),  # type: ignore[arg-type]
    "experts: ids must be a value of ids": lambda h: h.p.experts(h.v8, h.k, h.k, h.stack, h.stack, h.down, h.w8),
    "experts: down's count is 1, not 3": lambda h: h.p.experts(
        h.v8, h.ids, h.k, h.stack, h.stack, h.p.weight(0, 8, 16), h.w8
    ),
    "experts: gate and up must have the same shape": lambda h: h.p.experts(
        h.v8, h.ids, h.k, h.stack, h.matrix, h.down, h.w8
    ),
    "experts: mask names expert_mask 0": lambda h: h.p.experts(
        h.v8, h.ids, h.k, h.stack, h.stack, h.down, h.w8, mask=0
    ),
    "experts: mask's size is 2, not 3": lambda h: h.p.experts(
        h.v8, h.ids, h.k, h.stack, h.stack, h.down, h.w8, mask=h.p.expert_mask(2)
    ),
    "add: b's width is 16": lambda h: h.p.add(h.v8, h.v16, h.v8),
    "scale: factor must be finite": lambda h: h.p.scale(h.v8, float("nan")),
    "select_rows: out must be a value of its own": lambda h: h.p.select_rows(h.v8, h.v8),
}


@pytest.mark.parametrize("message", BAD_RECORDINGS)
def test_recording(message: str) -> None:
    h = Handles()
    with pytest.raises(ValueError, match=message):
        BAD_RECORDINGS[message](h)
    assert h.p.operation_count == 0


def test_unknown_tier() -> None:
    with pytest.raises(ValueError, match="unknown tier sse9"):
        _cpu.Program("sse9")  # type: ignore[arg-type]


def test_inputs_of_different_rows() -> None:
    p = _cpu.Program()
    x, y = p.value(8), p.value(8)
    p.select_rows(x, y)
    p.add(x, y, x)
    with pytest.raises(ValueError, match="operation 1, add: some inputs have a row per token"):
        p.finish()


def test_finish_closes_recording() -> None:
    h = Handles()
    h.p.finish()
    for action in (h.p.finish, lambda: h.p.value(3), lambda: h.p.scale(h.v8, 1.0)):
        with pytest.raises(ValueError, match="the program is finished"):
            action()


@pytest.mark.parametrize(
    ("size", "offset", "message"),
    [(512, 4, "needs 512 bytes at offset 4"), (512, -4, "offset -4"), (512, 2**62, "but the buffer holds 512"),
     (0, 0, "but the buffer holds 0"), (520, 2, "multiple of 4")],
)  # fmt: skip
def test_weights_must_fit_their_buffer(size: int, offset: int, message: str) -> None:
    h = Handles()
    with pytest.raises(ValueError, match=f"bind_weight: weight {h.matrix} .*{message}"):
        h.p.bind_weight(h.matrix, np.zeros(size, np.uint8), offset)
    h.p.bind_weight(h.matrix, np.zeros(516, np.uint8), 4)


def test_only_whole_contiguous_buffers() -> None:
    h = Handles()
    with pytest.raises((ValueError, BufferError)):
        h.p.bind_weight(h.matrix, np.zeros((64, 16), np.uint8)[:, ::2])
    with pytest.raises(TypeError):
        h.p.bind_weight(h.matrix, 3)  # type: ignore[arg-type]


def test_cache_memory_is_checked() -> None:
    h = Handles()
    good = np.zeros((3, 2, 4, 8), np.float16)
    for keys, values, message in (
        (good[:2], good, "keys hold 2 blocks, values 3"),
        (good.reshape(-1)[:100], good, "takes whole blocks of 128 bytes"),
        (good[:0], good[:0], "keys hold 0 blocks"),
    ):
        with pytest.raises(ValueError, match=f"bind_kv: kv_layer {h.kv}.*{message}"):
            h.p.bind_kv(h.kv, keys, values)
    frozen = good.copy()
    frozen.setflags(write=False)
    with pytest.raises((ValueError, BufferError)):
        h.p.bind_kv(h.kv, frozen, good)
    with pytest.raises(ValueError, match="there is no kv_layer 9"):
        h.p.bind_kv(9, good, good)


def test_masks_are_checked() -> None:
    h = Handles()
    mask = h.p.expert_mask(3)
    with pytest.raises(ValueError, match="has 3 experts, not 2"):
        h.p.set_expert_mask(mask, np.ones(2, np.bool_))
    with pytest.raises(ValueError, match="there is no expert_mask 5"):
        h.p.set_expert_mask(5, np.ones(3, np.bool_))


# --- batches ----------------------------------------------------------------------------------------------------------


def arrays(**changes: object) -> list[np.ndarray]:
    fields = {"tokens": [1, 2], "positions": [0, 1], "sequences": [0, 0], "block_tables": [[0]], "outputs": [1]}
    return [np.asarray(value, np.int32) for value in (fields | changes).values()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": []}, "a run takes 1..1048576 tokens, not 0"),
        ({"positions": [0]}, "2 tokens, but 1 positions"),
        ({"sequences": [0, 0, 0]}, "2 tokens, but 3 sequences"),
        ({"outputs": [0, 1, 1]}, "more outputs than tokens"),
        ({"tokens": [1, -2]}, r"tokens\[1\] is -2"),
        ({"positions": [-1, 0]}, r"positions\[0\] is -1"),
        ({"positions": [0, 2**30]}, r"positions\[1\] is 1073741824"),
        ({"sequences": [0, 1]}, r"sequences\[1\] is 1, not 0..0"),
        ({"outputs": [2]}, r"outputs\[0\] is 2, not 0..1"),
        ({"positions": [1, 1]}, "sequence 0 has position 1 twice"),
        ({"block_tables": np.zeros((0, 4))}, r"sequences\[0\] is 0"),
    ],
)
def test_batches_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"batch: .*{message}"):
        _cpu.Batch(*arrays(**changes))


def test_the_number_of_block_tables_is_checked() -> None:
    with pytest.raises(ValueError, match="block_tables does not hold 2 tables"):
        _cpu.Batch(*arrays(block_tables=[[0], [1], [2]]), None, 2)
    with pytest.raises(ValueError, match=r"sequences\[1\] is 1, not 0\.\.0"):
        _cpu.Batch(*arrays(sequences=[0, 1], block_tables=[[0], [1]]), None, 2)
    with pytest.raises(ValueError, match="a layer needs block table 1, but there are 1"):
        attention_program(table=1).run(_cpu.ThreadPool(1), _cpu.Batch(*arrays()))
    with pytest.raises(ValueError, match=r"names block 3, but the pool holds 0\.\.2"):
        attention_program(table=1).run(_cpu.ThreadPool(1), _cpu.Batch(*arrays(block_tables=[[0], [3]]), None, 2))


def attention_program(blocks: int = 3, table: int = 0) -> _cpu.Program:
    h = Handles()
    kv = h.p.kv_layer(2, 8, 8, ref.F16, 4, False, table)
    h.p.attention(h.v32, h.v16, h.v16, kv, h.p.value(32), 4, 1.0)
    h.p.finish()
    h.p.bind_kv(kv, *(np.zeros((blocks, 2, 4, 8), np.float16) for _ in range(2)))
    return h.p


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": [3, 4]}, "reaches position 4, but its block table holds 1 blocks of 4"),
        ({"positions": [0, 2**30 - 1]}, "reaches position 1073741823"),
        ({"block_tables": [[3]]}, "names block 3, but the pool holds 0..2"),
        ({"block_tables": [[-1]]}, "names block -1"),
        ({"positions": [8, 9], "block_tables": [[0, -5, 1]]}, "names block -5"),
        ({"block_tables": np.zeros((1, 0))}, "block table holds 0 blocks"),
        ({"positions": [1, 1], "sequences": [0, 1], "block_tables": [[2], [2]]}, "write the same cache row"),
        ({"positions": [0, 4], "block_tables": [[1, 1]]}, "write the same cache row"),
    ],
)
def test_positions_and_blocks_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"batch: .*{message}"):
        attention_program().run(_cpu.ThreadPool(2), _cpu.Batch(*arrays(**changes)))


def test_blocks_that_no_token_needs_may_be_anything() -> None:
    batch = _cpu.Batch(*arrays(block_tables=[[2, -9, 2**31 - 1]]))
    attention_program().run(_cpu.ThreadPool(2), batch)


def test_runs_are_checked() -> None:
    h = Handles()
    h.p.embed(h.matrix, h.v8)
    h.p.linear(h.v8, [h.matrix], [], [h.v16])
    pool, batch = _cpu.ThreadPool(1), _cpu.Batch(*arrays(tokens=[15, 16]))
    with pytest.raises(ValueError, match=r"run: finish\(\) comes first"):
        h.p.run(pool, batch)
    h.p.finish()
    with pytest.raises(ValueError, match="operation 0, embed: weight 0 is not bound"):
        h.p.run(pool, batch)
    with pytest.raises(ValueError, match=r"nothing has run yet, or not since trim\(\)"):
        h.p.read(h.v8)
    h.p.bind_weight(h.matrix, np.zeros((16, 8), np.float32))
    with pytest.raises(ValueError, match="token 16 is outside the table's 16 rows"):
        h.p.run(pool, batch)
    for begin, end in ((-1, 1), (2, 1), (0, 3)):
        with pytest.raises(ValueError, match=r"are outside 0\.\.2"):
            h.p.run(pool, batch, begin, end)
    h.p.run(pool, batch, 1, 2)
    h.p.run(pool, batch, 2, 2)
    unbound = Handles()
    unbound.p.attention(unbound.v32, unbound.v16, unbound.v16, unbound.kv, unbound.p.value(32), 4, 1.0)
    unbound.p.finish()
    with pytest.raises(ValueError, match="operation 0, attention: kv_layer 0 is not bound"):
        unbound.p.run(pool, batch)


def test_reading_and_writing_are_checked() -> None:
    h = Handles()
    h.p.rms_norm(h.v8, h.vector, h.w8, 1e-5)
    h.p.linear(h.w8, [h.matrix], [], [h.v16])
    with pytest.raises(ValueError, match=r"finish\(\) comes first"):
        h.p.write(h.v8, np.zeros((1, 8), np.float32))
    h.p.finish()
    h.p.bind_weight(h.matrix, np.zeros((16, 8), np.float32))
    h.p.bind_weight(h.vector, np.zeros(8, np.float32))
    for rows, message in (
        (np.zeros((2, 9), np.float32), "has width 8, not 9"),
        (np.zeros((0, 8), np.float32), "rows must be 1"),
        (np.zeros((2, 8), np.int32), "holds float32"),
    ):
        with pytest.raises(ValueError, match=f"write: value {h.v8}.*{message}"):
            h.p.write(h.v8, rows)
    with pytest.raises(TypeError):
        h.p.write(h.v8, np.zeros((2, 8)))  # type: ignore[arg-type]  # float64 is not converted behind one's back
    h.p.run(_cpu.ThreadPool(1), _cpu.Batch(*arrays()))
    assert h.p.read(h.v16).shape == (2, 16)
    with pytest.raises(ValueError, match="exists only inside a fused step"):
        h.p.read(h.w8)
    with pytest.raises(ValueError, match="there is no value 99"):
        h.p.read(99)
