from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.gguf import QuantType
from engine.gguf.describe import describe, to_json
from engine.gguf.describe_text import to_text
from tests.support.gguf_writer import GGUFBuilder, write_split
from tests.support.tiny_families import TRAITS
from tests.support.tiny_models import FAMILIES, TinyModel, tiny_model_builder

Models = Callable[[TinyModel], Path]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_families_are_native(tiny_models: Models, family: str) -> None:
    description = json.loads(to_json(describe(tiny_models(TinyModel(family, "all")))))
    assert description["engine"] == "native" and description["engine_reason"] == ""
    assert description["kind"] == "model"
    assert description["architecture"] == TinyModel(family).architecture
    spec = description["spec"]
    assert (spec["layers"], spec["width"], spec["heads"], spec["kv_heads"]) == (2, 256, 4, 2)
    traits = TRAITS[family]
    assert (spec["experts"], spec["experts_used"]) == ((8, traits.experts_used or 2) if traits.experts else (0, 0))
    assert all(row["native"] for row in description["types"])
    roles = {row["role"]: row["tensors"] for row in description["roles"]}
    assert roles["attention"] == {"phi3": 4, "gpt-oss": 18}.get(family, 14 if traits.biases else 8)
    banks = 2 - traits.dense_layers if traits.experts else 0
    assert roles.get("experts", 0) == banks * (6 if traits.expert_biases else 3)


def test_the_starter_model(starter_model: Path) -> None:
    description = describe(starter_model)
    assert (description.engine, description.quantization, description.parameters) == ("native", "Q4_1", 134_515_008)
    assert description.notes == ()
    assert sum(row.bytes for row in description.types) == sum(row.bytes for row in description.tensors)
    tokens = next(row for row in description.metadata if row.key == "tokenizer.ggml.tokens")
    assert tokens.type == "array of 49152 string" and tokens.value[1] == "<|im_start|>"
    text = to_text(description)
    assert "engine        native" in text and "token_embd.weight" in text and "49152 × 576" in text
    assert "    1 tensor    " in text and " 1 tensors" not in text
    assert any(line.endswith("'en'") for line in text.splitlines())  # the one language there is, and no more to follow
    assert sum(line.endswith("…") for line in text.splitlines()) == 4  # tokens, types, merges and the template


def test_quirks_are_told(tiny_models: Models) -> None:
    missing = ("tokenizer.ggml.pre", "tokenizer.chat_template", "tokenizer.ggml.eos_token_id")
    overrides = (*((key, None) for key in missing), ("someone.else", 1), ("qwen2.block_count", 2))
    notes = " ".join(describe(tiny_models(TinyModel(overrides=overrides))).notes)
    for words in ("pre-tokenizer is missing", "no chat template", "No end-of-text token", "someone.else"):
        assert words in notes
    default = TinyModel(overrides=(("tokenizer.ggml.pre", "default"),))
    assert "pre-tokenizer is “default”" in describe(tiny_models(default)).notes[0]


def test_a_block_count_that_lies(tiny_models: Models) -> None:
    description = describe(tiny_models(TinyModel(overrides=(("llama.block_count", 3),))))
    assert any("speaks of 3 layers, and tensors of 2 are there" in note for note in description.notes)


def test_unknown_architectures_run_on_the_compatibility_engine(tmp_path: Path) -> None:
    description = describe(GGUFBuilder("strange").tensor("t", (8,)).write(tmp_path / "m.gguf"))
    assert description.engine == "compatibility" and "strange" in description.engine_reason
    assert description.spec is None


def test_types_that_the_kernels_do_not_know(starter_model: Path, tmp_path: Path) -> None:
    builder = tiny_model_builder(TinyModel("llama", "Q8_0"), starter_model)
    for tensor in builder.tensors:
        if tensor.name == b"blk.1.ffn_up.weight":
            tensor.type_id, tensor.data = QuantType.NVFP4, bytes(512 * 256 // 64 * 36)
        if tensor.name == b"blk.1.ffn_gate.weight":
            tensor.type_id = 99
    description = describe(builder.write(tmp_path / "m.gguf"))
    assert description.engine == "compatibility"
    assert "unsupported type 99" in description.engine_reason or "unsupported type 99" in " ".join(description.notes)
    assert {row.type: row.native for row in description.types}["NVFP4"] is False
    assert "unsupported type 99" in to_text(description)


@pytest.mark.parametrize(
    ("architecture", "general_type", "kind"),
    [
        ("clip", None, "projector"),
        ("other", "mmproj", "projector"),
        ("llama", "adapter", "adapter"),
        ("llama", None, "model"),
    ],
)
def test_kinds(tmp_path: Path, architecture: str, general_type: str | None, kind: str) -> None:
    builder = GGUFBuilder(architecture).tensor("t", (8,))
    if general_type:
        builder.add("general.type", general_type)
    assert describe(builder.write(tmp_path / "m.gguf")).kind == kind


def test_a_vocabulary(tmp_path: Path) -> None:
    assert describe(GGUFBuilder().write(tmp_path / "v.gguf")).kind == "vocabulary"


def test_split_sets_are_one_model(starter_model: Path, tmp_path: Path) -> None:
    builder = tiny_model_builder(TinyModel("qwen3"), starter_model)
    parts = write_split(builder, tmp_path, "m", [5, len(builder.tensors) - 5])
    description = describe(parts[1])
    assert description.engine == "native"
    assert [(row.file, row.tensors) for row in description.shards] == [
        (parts[0].name, 5), (parts[1].name, len(builder.tensors) - 5),
    ]  # fmt: skip
    assert description.file_bytes == sum(part.stat().st_size for part in parts)


def test_nothing_in_a_file_reaches_the_terminal_raw(tmp_path: Path) -> None:
    builder = (
        GGUFBuilder("llama")
        .add("general.name", "\x1b[31mred\nline")
        .add("k\x07", float("nan"))
        .add("i", [float("inf")])
    )
    description = describe(builder.tensor("t\x1b", (8,)).write(tmp_path / "m.gguf"))
    assert all(line.isprintable() for line in to_text(description).splitlines())
    assert json.loads(to_json(description))["name"] == "\x1b[31mred\nline"


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is not there"):
        describe(tmp_path / "absent.gguf")
