"""What a header says, and whether the model would run here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.gguf import GGUFFile, QuantType
from engine.hub.facts import ModelFacts, model_facts
from engine.hub.fit import FitKind, Machine, estimate_fit
from engine.memory import KVPool
from engine.models import build_graph, load_spec
from tests.support.gguf_writer import GGUFBuilder
from tests.support.small_gguf import small_gguf
from tests.support.tiny_models import TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

GIB = 1 << 30


def facts_of(builder: GGUFBuilder, folder: Path) -> ModelFacts:
    with GGUFFile.open(builder.write(folder / "m.gguf")) as file:
        return model_facts(file.metadata, file.tensors)


def test_facts_of_a_model(tmp_path: Path) -> None:
    facts = facts_of(small_gguf(), tmp_path)
    assert (facts.kind, facts.architecture, facts.name, facts.layers) == ("model", "llama", "Small Model", 2)
    assert facts.native
    assert facts.context_length == 4096
    assert facts.parameters == 2 * 64 * 64
    per_token = 2 * 2 * (16 + 16) * 2  # layers x kv heads x (key + value) x 2 bytes
    assert facts.bytes_per_token("f16") == facts.bytes_per_token("q8_0") == per_token  # 16 values make no block
    assert facts.cache_bytes(100, "f16") == 100 * per_token
    assert facts.quirks == ()
    assert facts.unsupported == ""


@pytest.mark.parametrize(
    ("changes", "quirk"),
    [
        ({"tokenizer__ggml__pre": None}, "pre-tokenizer"),
        ({"tokenizer__chat_template": None}, "chat template"),
        ({"tokenizer__ggml__eos_token_id": None}, "end-of-text"),
        ({"tokenizer__ggml__model": None}, "no tokenizer"),
        ({"llama__block_count": 3}, "3 layers"),
        ({"strange__key": 1}, "strange.key"),
        ({"llama__context_length": "four"}, ""),  # of the wrong type: counts as missing
    ],
)
def test_quirks_are_named(tmp_path: Path, changes: dict[str, object], quirk: str) -> None:
    facts = facts_of(small_gguf(**changes), tmp_path)
    assert any(quirk in sentence for sentence in facts.quirks) or not quirk


def test_fork_types_are_unsupported_by_name(tmp_path: Path) -> None:
    builder = small_gguf()
    builder.tensor_raw("blk.0.ffn_up.weight", (64, 64), 134, bytes(64))
    facts = facts_of(builder, tmp_path)
    fit = estimate_fit(GIB, facts, Machine(64 * GIB))
    assert (fit.kind, fit.label) == (FitKind.UNSUPPORTED, "Unsupported: tensor type IQ1_BN")
    assert not fit.runs


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [("general.type", "mmproj", "projector"), ("general.type", "adapter", "adapter"), ("split.no", 1, "part")],
)
def test_kinds(tmp_path: Path, key: str, value: object, kind: str) -> None:
    assert facts_of(small_gguf().add(key, value), tmp_path).kind == kind


def test_latent_attention_has_a_small_cache(tmp_path: Path) -> None:
    changes = {"llama__attention__kv_lora_rank": 512, "llama__rope__dimension_count": 64}
    assert facts_of(small_gguf(**changes), tmp_path).bytes_per_token("f16") == 2 * (512 + 64) * 2


@pytest.mark.parametrize("kv_type", [QuantType.F16, QuantType.Q8_0])
@pytest.mark.parametrize("model", [TinyQwen3Next(layers=4), TinyModel("gemma3", layers=6, head_dim=32)])
def test_a_cache_is_as_large_as_the_engine_makes_it(
    tiny_models: Callable[[TinyModel], Path], model: TinyModel, kv_type: QuantType
) -> None:
    with GGUFFile.open(tiny_models(model)) as gguf:
        facts = model_facts(gguf.metadata, gguf.tensors)
        layers = build_graph(load_spec(gguf)).kv_layers
    name, per_token = kv_type.name.lower(), KVPool.bytes_per_token(layers, kv_type)
    assert facts.bytes_per_token(name) == per_token
    assert facts.cache_bytes(4000, name) == 4000 * per_token + KVPool.fixed_bytes(layers, 4000, kv_type)


@pytest.mark.parametrize(
    ("size", "ram", "vram", "kind", "label"),
    [
        (4, 16, 12, FitKind.GPU, "Runs on the GPU"),
        (17, 32, 12, FitKind.SPLIT, "GPU + RAM"),
        (4, 16, 0, FitKind.RAM, "Runs in RAM"),
        (30, 16, 8, FitKind.SHORT, "Needs 10 GiB more RAM"),
        (30, 16, 0, FitKind.SHORT, "Needs 17 GiB more RAM"),
    ],
)
def test_fit(tmp_path: Path, size: int, ram: int, vram: int, kind: FitKind, label: str) -> None:
    facts = facts_of(small_gguf(), tmp_path)
    fit = estimate_fit(size * GIB, facts, Machine(ram * GIB, vram * GIB))
    assert (fit.kind, fit.label) == (kind, label)
    assert fit.speed is None
    assert "GiB" in fit.reason


def test_keys_and_values_in_8_bits_need_less(tmp_path: Path) -> None:
    changes = {"llama__attention__key_length": 64 << 8, "llama__attention__value_length": 64 << 8}
    facts = facts_of(small_gguf(**changes), tmp_path)
    needed = 2 * 2 * 2 * (64 << 8) * 4096  # values: layers x kv heads x (key + value) x tokens
    in_16, in_8 = (estimate_fit(GIB, facts, Machine(4 * GIB), kv_type=kv_type) for kv_type in ("f16", "q8_0"))
    assert in_16.needed - in_8.needed == needed * 30 // 32
    assert (in_16.kind, in_8.kind) == (FitKind.SHORT, FitKind.RAM)
    assert "544 MiB of cache in 8 bits for 4096 tokens" in in_8.reason and "8 bits" not in in_16.reason


def test_speed_only_from_a_planner(tmp_path: Path) -> None:
    facts = facts_of(small_gguf(), tmp_path)
    fit = estimate_fit(17 * GIB, facts, Machine(32 * GIB, 12 * GIB), lambda facts, size, context: 21.4)
    assert fit.label == "GPU + RAM: ~21 tok/s predicted"
    assert estimate_fit(99 * GIB, facts, Machine(32 * GIB), lambda *_: 5.0).speed is None


def test_before_the_header_is_read_the_reason_says_so() -> None:
    fit = estimate_fit(4 * GIB, None, Machine(16 * GIB))
    assert not fit.from_header
    assert "on top" in fit.reason
