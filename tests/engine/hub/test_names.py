"""From file names to models."""

from __future__ import annotations

import random

import pytest

from engine.hub.names import RepoFile, companion_kind, fold, quantization_label

UNSLOTH = [
    "UD-Q4_K_XL/Qwen3-235B-A22B-UD-Q4_K_XL-00001-of-00003.gguf",
    "UD-Q4_K_XL/Qwen3-235B-A22B-UD-Q4_K_XL-00002-of-00003.gguf",
    "UD-Q4_K_XL/Qwen3-235B-A22B-UD-Q4_K_XL-00003-of-00003.gguf",
    "Q8_0/Qwen3-235B-A22B-Q8_0-00001-of-00002.gguf",
    "Q8_0/Qwen3-235B-A22B-Q8_0-00002-of-00002.gguf",
    "README.md",
    "imatrix_unsloth.dat",
]


def files(*paths: str) -> list[RepoFile]:
    return [RepoFile(path, 100) for path in paths]


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("Qwen3-30B-A3B-Q4_K_M.gguf", "Q4_K_M"),
        ("Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("qwen2.5-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("gpt-oss-120b-MXFP4_MOE-00001-of-00003.gguf", "MXFP4_MOE"),
        ("bitnet-IQ1_BN.gguf", "IQ1_BN"),
        ("model-fp16.gguf", "F16"),
        ("BF16/model-00001-of-00002.gguf", "BF16"),
        ("Q4-model.gguf", "Q4"),
        ("best-of-breed.gguf", ""),
        ("gemma-3-12b-it-q4_0_s.gguf", "Q4_0_S"),
        ("Mixtral-8x7B.gguf", ""),
    ],
)
def test_quantization_label(path: str, label: str) -> None:
    assert quantization_label(path) == label


def test_shards_are_one_model_whatever_their_order() -> None:
    for seed in range(20):
        shuffled = UNSLOTH.copy()
        random.Random(seed).shuffle(shuffled)
        models = fold(files(*shuffled)).models
        assert [(one.name, one.quantization, one.shards, one.size) for one in models] == [
            ("Qwen3-235B-A22B-Q8_0", "Q8_0", 2, 200),
            ("Qwen3-235B-A22B-UD-Q4_K_XL", "UD-Q4_K_XL", 3, 300),
        ]
        assert models[1].files[0].path.endswith("00001-of-00003.gguf")


def test_missing_shard_is_named() -> None:
    (model,) = fold(files("m-00001-of-00003.gguf", "m-00003-of-00003.gguf")).models
    assert model.missing == (2,)
    assert model.shards == 3


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mmproj-F16.gguf", "mmproj"),
        ("mmproj-model-f16.gguf", "mmproj"),
        ("Qwen2.5-VL-7B-mmproj-F16.gguf", "mmproj"),
        ("gemma-3-4b-it.mmproj.gguf", "mmproj"),
        ("imatrix.gguf", "imatrix"),
        ("Qwen3-8B-imatrix.gguf", "imatrix"),
        ("Qwen3-8B-imatrix-Q4_K_M.gguf", ""),  # a model, made with one
        ("GLM-4.5-mtp.gguf", "mtp"),
        ("mtp-GLM-4.5-Q8_0.gguf", "mtp"),
        ("attempt-Q4_0.gguf", ""),
    ],
)
def test_companion(name: str, kind: str) -> None:
    assert companion_kind(name) == kind
    listing = fold(files("Model-Q4_0.gguf", name))
    assert (name in {one.file.path for one in listing.companions}) == bool(kind)
    assert (name in {file.path for one in listing.models for file in one.files}) == (not kind)


def test_projector_alone_is_never_a_model() -> None:
    listing = fold(files("mmproj-F16.gguf"))
    assert not listing.models
    assert len(listing.companions) == 1


def test_repository_of_mtp_models_offers_them() -> None:
    assert len(fold(files("X-MTP-Q4_0.gguf", "X-MTP-Q8_0.gguf")).models) == 2


@pytest.mark.parametrize("suffix", [".part1of2", "-split-a", ".part-aa", ".001"])
def test_pieces_cut_by_other_programs_are_explained(suffix: str) -> None:
    other = {".part1of2": ".part2of2", "-split-a": "-split-b", ".part-aa": ".part-ab", ".001": ".002"}[suffix]
    (model,) = fold(files(f"big-Q8_0.gguf{suffix}", f"big-Q8_0.gguf{other}")).models
    assert model.name == "big-Q8_0"
    assert "pieces" in model.problem


def test_names_that_look_like_splits_and_are_none() -> None:
    names = ("best-of-breed.gguf", "1-of-2.gguf", "m-00004-of-00002.gguf", "m-0001-of-0002.gguf")
    listing = fold(files(*names))
    assert {file.path for model in listing.models for file in model.files} == set(names) - {names[2]}
    assert all(model.shards == 1 for model in listing.models)


def test_same_name_in_two_folders_stays_apart() -> None:
    assert len(fold(files("a/m-00001-of-00001.gguf", "b/m-00001-of-00001.gguf")).models) == 2
