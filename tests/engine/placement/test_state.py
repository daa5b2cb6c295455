"""KV cache and recurrent state, exact per architecture, against sums done by hand."""

from __future__ import annotations

import pytest

from engine.errors import FormatError
from engine.placement.shape import ModelShape
from engine.placement.state import Q8_0_BYTES, StateKind
from tests.support.shapes import dense_shape, dense_tensors, header, published_shape, tensor


def test_grouped_query_attention() -> None:
    # Qwen3-14B: 40 layers × 8 heads × (128 + 128) × 2 bytes = 160 KiB per token
    assert published_shape("qwen3-14b-q4_k_m").state_bytes(1) == 160 * 1024
    assert published_shape("qwen3-14b-q4_k_m").state_bytes(40960) == 40960 * 160 * 1024


def test_quantised_cache() -> None:
    # Q8_0: 34 bytes for 32 values
    whole = published_shape("qwen3-14b-q4_k_m").state_bytes(4096)
    assert published_shape("qwen3-14b-q4_k_m").state_bytes(4096, Q8_0_BYTES) == whole * 34 // 64


def test_windows_are_read_only_as_far_as_they_see() -> None:
    # gpt-oss-20b: every second layer of 24 sees 128 positions; 8 heads × (64 + 64) × 2 bytes = 2 KiB per layer
    shape = published_shape("gpt-oss-20b-mxfp4")
    kinds = [layer.state.kind for layer in shape.layers]
    assert kinds[:4] == [StateKind.WINDOW, StateKind.FULL, StateKind.WINDOW, StateKind.FULL]
    states = [layer.state for layer in shape.layers]
    assert sum(state.read_bytes(131072) for state in states) == 12 * 2048 * 131072 + 12 * 2048 * 128
    assert sum(state.bytes(131072, windows_only=True) for state in states) == 12 * 2048 * 131072 + 12 * 2048 * 128
    kept = 2 * (128 + 64) + 512  # the windows of two sequences and a step's tokens
    assert shape.state_bytes(131072) == 12 * 2048 * (131072 + kept)
    assert shape.state_bytes(64) == 24 * 2048 * 64


@pytest.mark.parametrize(
    ("pattern", "windowed"),
    [
        ([True, True, False, True], [0, 1, 3]),
        (2, [0, 2]),
        (None, []),  # a size alone means nothing where readers ignore it
    ],
)
def test_window_patterns(pattern: object, windowed: list[int]) -> None:
    shape = dense_shape(sliding_window=256, sliding_window_pattern=pattern)
    assert [layer.index for layer in shape.layers if layer.state.window] == windowed


def test_windows_of_a_known_family_without_a_pattern() -> None:
    metadata = header(12, "gemma3", sliding_window=1024, key_length=256, value_length=256)
    shape = ModelShape.from_header(metadata, dense_tensors(12), "gemma.gguf")
    assert [layer.index for layer in shape.layers if not layer.state.window] == [5, 11]
    # 2 heads × 512 values × 2 bytes = 2 KiB per position
    assert sum(layer.state.read_bytes(8192) for layer in shape.layers) == 2048 * (2 * 8192 + 10 * 1024)
    assert shape.state_bytes(8192) == 2048 * (2 * 8192 + 10 * (2 * (1024 + 64) + 512))


def test_latent_attention_keeps_one_row_per_position() -> None:
    # DeepSeek-V3: 61 layers × (512 + 64) values × 2 bytes
    assert published_shape("deepseek-v3-q4_k_m").state_bytes(1000) == 61 * 576 * 2 * 1000


def test_recurrent_layers_do_not_grow() -> None:
    # Qwen3-Next: 36 of 48 layers keep (4-1) × (4096 + 2×16×128) + 128 × 4096 float32 values, whatever the context;
    # in each of 4 slots; the other 12 keep 2 heads × 512 values × 2 bytes per position.
    shape = published_shape("qwen3-next-80b-a3b-q4_k_m")
    fixed = 4 * 36 * 4 * (3 * (4096 + 4096) + 128 * 4096)
    assert shape.state_bytes(1) == fixed + 12 * 2048
    assert shape.state_bytes(100_000) == fixed + 12 * 2048 * 100_000


def test_head_counts_per_layer_with_a_zero_first() -> None:
    shape = dense_shape(head_count_kv=[0, 2, 2, 1])
    per_position = 2 * (128 + 128) * 2
    assert shape.layers[0].state.bytes(100) == 0
    assert shape.state_bytes(100) == 100 * per_position * 5 // 2


def test_missing_head_counts_and_lengths_take_the_formats_defaults() -> None:
    # no head_count_kv: as many as heads; no key_length: embedding / heads
    shape = dense_shape(head_count_kv=None)
    assert shape.state_bytes(1) == 4 * 8 * (128 + 128) * 2


def test_arrays_longer_than_the_running_layers_belong_to_extra_prediction_layers() -> None:
    metadata = header(4, nextn_predict_layers=1, head_count_kv=[2, 2, 2, 8])
    shape = ModelShape.from_header(metadata, dense_tensors(4), "mtp.gguf")
    assert len(shape.layers) == 3
    assert shape.unused_bytes > 0
    assert shape.state_bytes(1) == 3 * 2 * 256 * 2


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"head_count_kv": [2, 2]}, "head_count_kv"),
        ({"head_count_kv": -1}, "head_count_kv"),
        ({"head_count": 2.5}, "head_count"),
        ({"embedding_length": "many"}, "embedding_length"),
        ({"block_count": 0}, "block_count"),
        ({"block_count": 5}, "block_count"),
        ({"block_count": 3}, "block_count"),
        ({"expert_count": 8, "expert_used_count": 9}, "expert_used_count"),
    ],
)
def test_a_header_that_lies_is_refused_by_name(keys: dict[str, object], named: str) -> None:
    with pytest.raises(FormatError, match=named):
        ModelShape.from_header(header(4, **keys), dense_tensors(4), "lying.gguf")


def test_expert_count_must_be_that_of_the_tensors() -> None:
    metadata = header(1, expert_count=64, expert_used_count=8)
    tensors = [*dense_tensors(1), tensor("blk.0.ffn_up_exps.weight", (1024, 512, 32))]
    with pytest.raises(FormatError, match="holds 32 experts"):
        ModelShape.from_header(metadata, tensors, "lying.gguf")
