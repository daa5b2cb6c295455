"""What a file's quantisation is called, such as "Q4_K_M"."""

from __future__ import annotations

from collections import Counter

from engine.gguf import GGUFFile

# general.file_type, as llama.cpp's llama_ftype counts it
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
    36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip


def quantization_name(gguf: GGUFFile) -> str:
    """By the file's own word, or else the type that most of its bytes are in."""
    stated = _FILE_TYPES.get(gguf.metadata.u32("general.file_type", -1))
    if stated:
        return stated
    sizes: Counter[str] = Counter()
    for tensor in gguf.tensors.values():
        sizes[tensor.type_name] += tensor.n_bytes
    return sizes.most_common(1)[0][0] if sizes else ""
