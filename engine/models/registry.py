"""The architectures that Tessera builds itself."""

from __future__ import annotations

from engine.errors import UnsupportedError
from engine.gguf import GGUFFile
from engine.models.deepseek2 import DEEPSEEK2
from engine.models.delta_net import DeltaNetReader
from engine.models.ernie4_5_moe import ERNIE4_5_MOE
from engine.models.family import Family
from engine.models.gemma2 import GEMMA2
from engine.models.gemma3 import GEMMA3
from engine.models.glm4 import GLM4
from engine.models.glm4moe import GLM4MOE
from engine.models.gpt_oss import GPT_OSS
from engine.models.granite import GRANITE, GRANITEMOE
from engine.models.hunyuan_moe import HUNYUAN_MOE
from engine.models.latent import LatentReader
from engine.models.llama import LLAMA
from engine.models.llama4 import LLAMA4
from engine.models.minimax_m2 import MINIMAX_M2
from engine.models.mistral3 import MISTRAL3
from engine.models.olmo2 import OLMO2
from engine.models.olmoe import OLMOE
from engine.models.phi3 import PHI3
from engine.models.qwen2 import QWEN2
from engine.models.qwen2moe import QWEN2MOE
from engine.models.qwen3 import QWEN3
from engine.models.qwen3moe import QWEN3MOE
from engine.models.qwen3next import QWEN3NEXT, QWEN35, QWEN35MOE
from engine.models.reading import SpecReader
from engine.models.smollm3 import SMOLLM3
from engine.models.spec import ModelSpec

_FAMILIES: dict[str, Family] = {
    family.architecture: family
    for family in (
        LLAMA,
        LLAMA4,
        QWEN2,
        QWEN2MOE,
        QWEN3,
        QWEN3MOE,
        DEEPSEEK2,
        QWEN3NEXT,
        QWEN35,
        QWEN35MOE,
        GPT_OSS,
        GEMMA2,
        GEMMA3,
        GLM4,
        GLM4MOE,
        PHI3,
        GRANITE,
        GRANITEMOE,
        OLMO2,
        OLMOE,
        SMOLLM3,
        ERNIE4_5_MOE,
        HUNYUAN_MOE,
        MINIMAX_M2,
        MISTRAL3,
    )
}


def native_architectures() -> tuple[str, ...]:
    """GGUF names of the architectures that the native engine runs."""
    return tuple(_FAMILIES)


def load_spec(gguf: GGUFFile, context: int | None = None) -> ModelSpec:
    """The model that `gguf` holds, for so many tokens of context where that is known.

    UnsupportedError for what cannot be run, FormatError for what is broken.
    """
    architecture = gguf.architecture
    family = _FAMILIES.get(architecture)
    if family is None:
        raise UnsupportedError(
            f"{gguf.path}: the architecture “{architecture}” is not one that Tessera builds itself.",
            remedy="It may run on the compatibility engine.",
        )
    reader = LatentReader if family.latent else DeltaNetReader if family.recurrent else SpecReader
    return reader(family, gguf, context).read()
