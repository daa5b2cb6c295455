"""ModelSpec from metadata and shapes: read, or refused by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile, QuantType
from engine.models import ModelSpec, build_graph, load_spec, native_architectures
from engine.models.spec import DenseSpec, ExpertsSpec
from tests.support.gguf_writer import GGUFBuilder
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_families import TRAITS
from tests.support.tiny_models import FAMILIES, TinyModel, tiny_model_builder
from tests.support.tiny_qwen3next import TinyQwen3Next

Write = Callable[[TinyModel], Path]


def read(path: Path) -> ModelSpec:
    with GGUFFile.open(path) as gguf:
        return load_spec(gguf)


def refusal(path: Path) -> EngineError:
    with pytest.raises((FormatError, UnsupportedError)) as caught:
        build_graph(read(path))
    return caught.value


@pytest.mark.parametrize("architecture", ["deepseek32", "deepseek4", "kimi-linear", "glm-dsa", "granitehybrid"])
def test_other_architectures_are_named_for_the_compatibility_engine(tmp_path: Path, architecture: str) -> None:
    """DeepSeek's sparse attention, Kimi's delta attention and others have no block here."""
    error = refusal(GGUFBuilder(architecture).add(f"{architecture}.block_count", 1).write(tmp_path / "m.gguf"))
    assert f"“{architecture}”" in error.cause and "compatibility engine" in error.remedy


def test_a_tensor_without_a_place_is_named(tmp_path: Path, starter_model: Path) -> None:
    """Such as the indexer of a sparse attention in a file that calls itself deepseek2."""
    builder = tiny_model_builder(TinyDeepSeek2(vocabulary=280), starter_model)
    builder.tensor("blk.0.indexer.k_norm.weight", (64,))
    error = refusal(builder.write(tmp_path / "m.gguf"))
    assert isinstance(error, UnsupportedError) and "blk.0.indexer.k_norm.weight" in error.cause


def test_native_architectures() -> None:
    assert set(native_architectures()) >= {"llama", "qwen2", "qwen3", "qwen3moe"}


NEIGHBOURS_TURN = {
    "llama", "mixtral", "glm4", "granite", "granitemoe", "smollm3", "ernie4_5-moe", "mistral3", "llama4",
}  # fmt: skip
OF_NO_TENSOR = {"llama4": ("plain", -8192)}  # norms of q and k, and the window


@pytest.mark.parametrize("family", FAMILIES)
def test_reads_every_family(tiny_models: Write, family: str) -> None:
    model, traits = TinyModel(family), TRAITS[family]
    spec = read(tiny_models(model))
    attention = spec.layers[0].attention
    assert (spec.architecture, spec.width, spec.vocabulary_size) == (model.architecture, 256, 512)
    assert (attention.heads, attention.kv_heads, attention.key_dim) == (4, 2, model.head_width)
    assert attention.rope is not None and attention.rope.dimensions == model.head_width * traits.rotated
    assert attention.rope.mode == ("norm" if family in NEIGHBOURS_TURN else "neox")
    keys = dict(traits.keys)
    qk_norm, window = OF_NO_TENSOR.get(family, (traits.qk_norm, keys.get("attention.sliding_window", 0)))
    assert (attention.qk_norm, attention.sinks, spec.norms) == (qk_norm, traits.sinks, traits.norms)
    assert attention.scale == pytest.approx(keys.get("attention.scale", model.head_width**-0.5))
    assert attention.window == window
    assert attention.soft_cap == keys.get("attn_logit_softcapping", 0)
    feed_forward = spec.layers[1].feed_forward
    if model.has_experts:
        assert isinstance(feed_forward, ExpertsSpec)
        assert (feed_forward.count, feed_forward.used, feed_forward.width) == (8, traits.experts_used or 2, 512)
        is_sigmoid = keys.get("expert_gating_func") == 2 or family == "llama4"
        assert feed_forward.gating == ("sigmoid" if is_sigmoid else "softmax")
        assert (feed_forward.shared == DenseSpec(512)) == (traits.shared != "none")
    else:
        assert feed_forward == DenseSpec(512, "gelu" if family.startswith("gemma") else "silu")
    assert not spec.warnings


def test_tied_output_is_read_off_the_tensors(tiny_models: Write) -> None:
    assert read(tiny_models(TinyModel(tied=True))).tied_output
    assert not read(tiny_models(TinyModel())).tied_output


def test_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = GGUFBuilder("mamba").write(tmp_path / "m.gguf")
    error = refusal(path)
    assert isinstance(error, UnsupportedError)
    assert "mamba" in error.cause and "compatibility" in error.remedy


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("llama.block_count", None, FormatError),
        ("llama.block_count", 0, FormatError),
        ("llama.context_length", None, FormatError),
        ("llama.attention.head_count", None, FormatError),
        ("llama.attention.head_count", 3, FormatError),
        ("llama.attention.head_count_kv", 0, FormatError),
        ("llama.attention.head_count", "four", FormatError),
        ("llama.attention.layer_norm_rms_epsilon", None, FormatError),
        ("llama.attention.layer_norm_rms_epsilon", 0.0, FormatError),
        ("llama.rope.dimension_count", 63, FormatError),
        ("llama.rope.dimension_count", 66, FormatError),
        ("llama.rope.freq_base", -1.0, FormatError),
        ("llama.rope.scaling.type", "longrope", UnsupportedError),
        ("llama.block_count", 3, FormatError),
        ("llama.block_count", 1, UnsupportedError),
    ],
)
def test_bad_metadata_is_refused_by_name(tiny_models: Write, key: str, value: Any, kind: type[EngineError]) -> None:
    error = refusal(tiny_models(TinyModel(overrides=((key, value),))))
    assert isinstance(error, kind)
    names = {"llama.block_count": ("block_count", "blk.")}.get(key, (key.split(".")[-1], "heads"))
    assert any(name in error.cause for name in names), error.cause


@pytest.mark.parametrize("name", ["blk.1.attn_k.weight", "blk.0.ffn_norm.weight", "token_embd.weight"])
def test_missing_tensor_is_named(tiny_models: Write, name: str) -> None:
    error = refusal(tiny_models(TinyModel(without=(name,))))
    assert name in error.cause and "missing" in error.cause


def test_qwen3_without_its_norms_is_refused(tiny_models: Write) -> None:
    assert "attn_q_norm" in refusal(tiny_models(TinyModel("qwen3", without=("blk.0.attn_q_norm.weight",)))).cause


def test_tensor_without_a_place_is_refused(tiny_models: Write) -> None:
    """A qwen3 file under llama's name has q norms that llama does not know; ignoring them would answer wrongly."""
    model = TinyModel("qwen3")
    renamed = tuple(
        (f"llama.{key}", value)
        for key, value in {
            "block_count": 2, "context_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2,
            "attention.layer_norm_rms_epsilon": 1e-5,
        }.items()
    )  # fmt: skip
    error = refusal(tiny_models(dataclasses.replace(model, overrides=(("general.architecture", "llama"), *renamed))))
    assert isinstance(error, UnsupportedError) and "attn_k_norm" in error.cause


def test_shapes_win_over_metadata_with_a_warning(tiny_models: Write) -> None:
    spec = read(tiny_models(TinyModel(overrides=(("llama.feed_forward_length", 999),))))
    assert spec.layers[0].feed_forward == DenseSpec(512)
    assert any("feed_forward_length" in warning and "999" in warning for warning in spec.warnings)


def test_metadata_that_shapes_contradict_among_themselves_is_refused(tiny_models: Write) -> None:
    """Twice the key-value heads would halve the head size of k, but not of q."""
    assert "disagree" in refusal(tiny_models(TinyModel(overrides=(("llama.attention.head_count_kv", 4),)))).cause


def test_per_layer_counts(tiny_models: Write) -> None:
    spec = read(tiny_models(TinyModel(overrides=(("llama.attention.head_count_kv", (2, 2)),))))
    assert [layer.attention.kv_heads for layer in spec.layers] == [2, 2]
    assert (
        "head_count_kv"
        in refusal(tiny_models(TinyModel(overrides=(("llama.attention.head_count_kv", (2, 2, 2)),)))).cause
    )


def test_more_experts_used_than_there_are(tiny_models: Write) -> None:
    assert "9" in refusal(tiny_models(TinyModel("qwen3moe", overrides=(("qwen3moe.expert_used_count", 9),)))).cause


def test_router_without_renormalisation(tiny_models: Write) -> None:
    spec = read(tiny_models(TinyModel("qwen3moe", overrides=(("qwen3moe.expert_weights_norm", False),))))
    assert spec.layers[0].feed_forward == ExpertsSpec(count=8, used=2, width=512, normalise=False)


def test_unknown_gating_is_refused(tiny_models: Write) -> None:
    error = refusal(tiny_models(TinyModel("qwen3moe", overrides=(("qwen3moe.expert_gating_func", 7),))))
    assert isinstance(error, UnsupportedError) and "expert_gating_func" in error.cause


def test_experts_in_tensors_of_their_own(tmp_path: Path) -> None:
    builder = GGUFBuilder("llama").add("llama.block_count", 1).add("llama.context_length", 32)
    builder.tensor("token_embd.weight", (8, 32)).tensor("blk.0.ffn_gate.0.weight", (32, 32))
    error = refusal(builder.write(tmp_path / "mixtral.gguf"))
    assert "blk.0.ffn_gate.0.weight" in error.cause and "newer conversion" in error.remedy


def test_old_rope_tensors_are_ignored(tiny_models: Write, tmp_path: Path, starter_model: Path) -> None:
    from tests.support.tiny_models import tiny_model_builder

    builder = tiny_model_builder(TinyModel(), starter_model).tensor("blk.0.attn_rot_embd.weight", (32,))
    build_graph(read(builder.write(tmp_path / "old.gguf")))


def test_norm_that_is_not_f32_is_refused(tiny_models: Write, tmp_path: Path, starter_model: Path) -> None:
    from tests.support.tiny_models import tiny_model_builder

    builder = tiny_model_builder(TinyModel(without=("output_norm.weight",)), starter_model)
    error = refusal(builder.tensor("output_norm.weight", (256,), QuantType.F16).write(tmp_path / "half.gguf"))
    assert isinstance(error, UnsupportedError) and "output_norm.weight" in error.cause and "F16" in error.cause


# What no family of ours computes; a list in `_NEUTRAL` says where some of them mean something.
UNKNOWN_VALUES: dict[str, object] = {
    "attention.causal": False,
    "attention.clamp_kqv": 30.0,
    "attention.max_alibi_bias": 8.0,
    "attention.temperature_scale": 0.125,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "router_logit_softcapping": 30.0,
    "embedding_scale": 12.0,
    "residual_scale": 0.25,
    "logit_scale": 8.0,
    "moe_every_n_layers": 2,
    "rope.scaling.alpha": 1000.0,
    "rope.scaling.type": "ntk",
    "rope.dimension_sections": [8, 12, 12, 4],
    "swiglu_clamp_exp": [7.0, 7.0],
    "use_parallel_residual": True,
    "expert_gating_func": 9,
}
READ_ELSEWHERE = {  # by families that compute them
    "attention.temperature_scale": {"mistral3"},
    "attn_logit_softcapping": {"gemma2"},
    "final_logit_softcapping": {"gemma2"},
    "embedding_scale": {"granite", "granitemoe"},
    "residual_scale": {"granite", "granitemoe"},
    "logit_scale": {"granite", "granitemoe"},
}


@pytest.mark.parametrize("family", native_architectures())
def test_unknown_values_of_known_families_are_refused_by_key(tmp_path: Path, starter_model: Path, family: str) -> None:
    if family == "deepseek2":
        model: TinyModel = TinyDeepSeek2(vocabulary=280)
    elif family in ("qwen3next", "qwen35", "qwen35moe"):
        model = TinyQwen3Next(family, vocabulary=280)
    else:
        model = TinyModel(family, "Q2_K", layers=TRAITS[family].least_layers, vocabulary=280, feed_forward=256)
    known = tiny_model_builder(model, starter_model)
    for key, value in UNKNOWN_VALUES.items():
        if family in READ_ELSEWHERE.get(key, ()) or (key == "expert_gating_func" and not model.has_experts):
            continue
        changed = GGUFBuilder(None)
        changed.pairs = [pair for pair in known.pairs if pair.key != f"{family}.{key}".encode()]
        changed.tensors = known.tensors
        problem = refusal(changed.add(f"{family}.{key}", value).write(tmp_path / "m.gguf"))
        assert isinstance(problem, UnsupportedError), (key, problem)
        assert key in problem.cause and str(value) in problem.cause, problem.cause
        assert "compatibility engine" in problem.remedy


def test_the_file_shows_norms_of_q_and_k(tiny_models: Write) -> None:
    """GLM-4.5 Air has none, the larger model has; qwen3 without them is broken."""
    without = tuple(f"blk.{layer}.attn_{part}_norm.weight" for layer in range(2) for part in "qk")
    spec = read(tiny_models(TinyModel("glm4moe", without=without)))
    assert [layer.attention.qk_norm for layer in spec.layers] == ["none", "none"]  # type: ignore[union-attr]
    assert "attn_q_norm" in str(refusal(tiny_models(TinyModel("qwen3", without=without))))


def test_windows_come_by_period_or_layer(tiny_models: Write) -> None:
    def windows(model: TinyModel) -> list[int]:
        return [layer.attention.window for layer in read(tiny_models(model)).layers]  # type: ignore[union-attr]

    assert windows(TinyModel("gpt-oss", layers=4)) == [24, 0, 24, 0]
    assert windows(TinyModel("gemma3", layers=7)) == [24, 24, 24, 24, 24, 0, 24]
    assert windows(TinyModel("olmo2")) == [0, 0]
    period = ("gemma3.attention.sliding_window_pattern", 3)
    assert windows(TinyModel("gemma3", layers=4, overrides=(period,))) == [24, 24, 0, 24]
    flags = ("gemma3.attention.sliding_window_pattern", (0, 1, 1, 0))
    assert windows(TinyModel("gemma3", layers=4, overrides=(flags,))) == [0, 24, 24, 0]
    flags = ("olmo2.attention.sliding_window_pattern", (True, False, True, True))
    size = ("olmo2.attention.sliding_window", 7)
    assert windows(TinyModel("olmo2", layers=4, overrides=(flags, size))) == [7, 0, 7, 7]


def test_large_gemmas_scale_queries_by_their_width(tiny_models: Write) -> None:
    spec = read(tiny_models(TinyModel("gemma2", layers=46, feed_forward=256, vocabulary=280)))
    assert spec.layers[0].attention.scale == pytest.approx((256 / 4) ** -0.5)
    assert read(tiny_models(TinyModel("gemma2"))).layers[0].attention.scale == pytest.approx(128**-0.5)


def test_layers_of_llama4(tiny_models: Write) -> None:
    spec = read(tiny_models(TinyModel("llama4", layers=4)))
    layers = [layer.attention for layer in spec.layers]
    assert [layer.window for layer in layers] == [-8192, -8192, -8192, 0]  # type: ignore[union-attr]
    assert [layer.rope is None for layer in layers] == [False, False, False, True]  # type: ignore[union-attr]
    assert [layer.temperature.scale for layer in layers] == [0, 0, 0, 0.1]  # type: ignore[union-attr]
    two = TinyModel("llama4", layers=4, overrides=(("llama4.expert_used_count", 2),))
    assert "expert_used_count is 2" in refusal(tiny_models(two)).cause
    other = TinyModel("llama4", layers=4, overrides=(("llama4.attention.sliding_window", 4096),))
    assert "attention.sliding_window is 4096" in refusal(tiny_models(other)).cause


def test_longrope_turns_by_the_context_that_is_wanted(tiny_models: Write) -> None:
    path = tiny_models(TinyModel("phi3", rope_scaling="longrope"))
    with GGUFFile.open(path) as gguf:
        short, long = load_spec(gguf, 256), load_spec(gguf, 257)
    assert short.context_length == 256 and long.context_length == 2048 and not long.warnings
    assert short.layers[0].attention.rope != long.layers[0].attention.rope  # type: ignore[union-attr]


def test_longrope_ends_the_context(tiny_models: Write) -> None:
    spec = read(tiny_models(TinyModel("phi3", rope_scaling="longrope")))
    assert spec.context_length == 256 and any("256" in warning for warning in spec.warnings)
    rope = spec.layers[0].attention.rope
    assert rope is not None and len(rope.factors) == 32
