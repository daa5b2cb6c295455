"""The architectures that Tessera builds itself."""

from __future__ import annotations

from engine.errors import UnsupportedError
from engine.gguf import GGUFFile
from engine.models.deepseek2 import DEEPSEEK2
from engine.models.delta_net import DeltaNetReader
from engine.models.family import Family
from engine.models.latent import LatentReader
from engine.models.llama import LLAMA
from engine.models.qwen2 import QWEN2
from engine.models.qwen3 import QWEN3
from engine.models.qwen3moe import QWEN3MOE
from engine.models.qwen3next import QWEN3NEXT, QWEN35MOE
from engine.models.reading import SpecReader
from engine.models.spec import ModelSpec

_FAMILIES: dict[str, Family] = {
    family.architecture: family for family in (LLAMA, QWEN2, QWEN3, QWEN3MOE, DEEPSEEK2, QWEN3NEXT, QWEN35MOE)
}


def native_architectures() -> tuple[str, ...]:
    """GGUF names of the architectures that the native engine runs."""
    return tuple(_FAMILIES)


def load_spec(gguf: GGUFFile) -> ModelSpec:
    """The model that `gguf` holds. UnsupportedError for what cannot be run, FormatError for what is broken."""
    architecture = gguf.architecture
    family = _FAMILIES.get(architecture)
    if family is None:
        raise UnsupportedError(
            f"{gguf.path}: the architecture “{architecture}” is not one that Tessera builds itself.",
            remedy="It may run on the compatibility engine.",
        )
    reader = LatentReader if family.latent else DeltaNetReader if family.recurrent else SpecReader
    return reader(family, gguf).read()
