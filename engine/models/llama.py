"""llama: Llama 1–3, SmolLM2, Mistral, and Mixtral's experts.

Conversion to GGUF permutes the rows of q and k, so rotary pairs are neighbours (mode "norm"). Llama 3.1 and later
carry their wavelength factors in the tensor `rope_freqs.weight`. Mixtral's router is softmax over the chosen two,
which equals softmax over all, then renormalised.
"""

from engine.models.family import Family

LLAMA = Family(
    "llama",
    rope_mode="norm",
    experts=True,
    ignored_tensors=(".attn_rot_embd.weight", ".rotary_emb.inv_freq"),  # old files: implied by the base
)
