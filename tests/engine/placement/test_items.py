"""Every byte of a model belongs to exactly one item."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.placement.costs import Workload, prefill_seconds, tokens_through
from engine.placement.hardware import catalogue
from engine.placement.hardware.profile import PACK
from engine.placement.items import ItemKind, model_items
from tests.support.shapes import SHAPES, dense_shape, moe_shape, published_shape

# Files as published on Hugging Face, in bytes (unsloth and ggml-org repositories); headers are a few MB of it.
_FILE_BYTES = {
    "qwen3-30b-a3b-q4_k_m": 18.56e9,
    "gpt-oss-20b-mxfp4": 12.11e9,
    "gpt-oss-120b-mxfp4": 63.39e9,
    "llama-3.1-70b-q4_k_m": 42.52e9,
    "qwen3-14b-q4_k_m": 9.00e9,
    "deepseek-v3-q4_k_m": 404.4e9,
    "qwen3-235b-a22b-q4_k_m": 142.2e9,
    "qwen3-next-80b-a3b-q4_k_m": 48.5e9,
}


@pytest.mark.parametrize("stem", sorted(path.stem for path in SHAPES.glob("*.json")))
def test_items_cover_every_byte(stem: str) -> None:
    shape = published_shape(stem)
    items = model_items(shape)
    assert items.dense_bytes + items.expert_bytes == shape.weight_bytes


@pytest.mark.parametrize("stem", sorted(_FILE_BYTES))
def test_shapes_weigh_what_the_published_files_weigh(stem: str) -> None:
    assert published_shape(stem).weight_bytes == pytest.approx(_FILE_BYTES[stem], rel=0.01)


def test_experts_count_in_full_however_few_are_used() -> None:
    few, many = moe_shape(used=1), moe_shape(used=8)
    assert few.weight_bytes == many.weight_bytes > dense_shape().weight_bytes


def test_order_and_parts_of_a_layer() -> None:
    kinds = [item.kind for item in model_items(moe_shape(layers=2)).items]
    layer = [ItemKind.ATTENTION, ItemKind.SHARED]
    assert kinds == [ItemKind.EMBEDDING, *layer, *layer, ItemKind.OUTPUT]


def test_products_side_by_side_share_their_packed_input() -> None:
    items = model_items(published_shape("qwen3-14b-q4_k_m")).items
    packed = {item.kind: dict(item.elements).get(PACK) for item in items if item.layer in (-1, 0)}
    assert packed[ItemKind.ATTENTION] == 5120 + 40 * 128
    assert packed[ItemKind.FEED_FORWARD] == 5120 + 17408


def test_leading_dense_layers_and_shared_experts() -> None:
    items = model_items(published_shape("deepseek-v3-q4_k_m"))
    kinds = {(item.kind, item.layer) for item in items.items}
    assert {(ItemKind.FEED_FORWARD, 0), (ItemKind.FEED_FORWARD, 2), (ItemKind.SHARED, 3)} <= kinds
    assert len(items.banks) == 58
    assert items.banks[0].layer == 3
    # router and shared expert go together, apart from the 256 routed ones
    shared = next(i for i in items.items if i.kind is ItemKind.SHARED)
    assert sorted(m.type_name for m in shared.matrices) == ["F32", "Q4_K", "Q4_K", "Q6_K"]


def test_a_tied_head_reads_the_embedding_and_is_not_counted_twice() -> None:
    from engine.placement.shape import ModelShape
    from tests.support.shapes import dense_tensors, header

    tensors = [t for t in dense_tensors(2) if t.name != "output.weight"]
    shape = ModelShape.from_header(header(2), tensors, "tied.gguf")
    items = model_items(shape)
    head = items.items[-1]
    assert head.tied_bytes == items.items[0].bytes
    assert sum(m.macs for m in head.matrices) == 1024 * 32000
    assert items.dense_bytes == shape.weight_bytes


def test_behind_the_last_layers_attention_only_what_is_asked_for_goes_on() -> None:
    machine, work = catalogue.machine("Ryzen 7 5800X"), Workload(prompt=512)
    for shape in (dense_shape(), moe_shape()):
        items = model_items(shape)
        last = [item for item in items.items if item.is_last]
        assert {item.layer for item in last} == {shape.layers[-1].index} and len(last) == 2
        for item in last:
            whole, asked = (prefill_seconds(each, machine.cpu, work) for each in (replace(item, is_last=False), item))
            one = prefill_seconds(replace(item, is_last=False), machine.cpu, replace(work, prompt=1))
            assert one < asked < whole if item.kind is ItemKind.ATTENTION else one == asked < whole
        assert [bank.is_last for bank in items.banks] == [False] * (len(items.banks) - 1) + [True] * bool(items.banks)
        assert [tokens_through(bank, work) for bank in items.banks[-2:]] == [512, 1][: len(items.banks)]
