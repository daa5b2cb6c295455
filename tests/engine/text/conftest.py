"""Tokenizers that tests of this room share; vocabularies are checked in a child only where that is the subject."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.text.tokenizer import Tokenizer
from tests.support.gguf_writer import GGUFBuilder
from tests.support.vocabularies import bpe_vocabulary, spm_vocabulary


@pytest.fixture(scope="session")
def starter_tokenizer(starter_model: Path) -> Tokenizer:
    return Tokenizer.load(starter_model, check=False)


@pytest.fixture(scope="session")
def small_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The SPM vocabulary of tests.support.vocabularies."""
    return Tokenizer.load(spm_vocabulary().write(tmp_path_factory.mktemp("spm") / "spm.gguf"), check=False)


@pytest.fixture(scope="session")
def byte_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The byte-level BPE vocabulary of tests.support.vocabularies: 259 tokens and <|endoftext|>."""
    return Tokenizer.load(bpe_vocabulary().write(tmp_path_factory.mktemp("bpe") / "bpe.gguf"), check=False)


@pytest.fixture
def load(tmp_path: Path) -> Callable[[GGUFBuilder], Tokenizer]:
    def load_builder(builder: GGUFBuilder) -> Tokenizer:
        return Tokenizer.load(builder.write(tmp_path / "vocabulary.gguf"), check=False)

    return load_builder
