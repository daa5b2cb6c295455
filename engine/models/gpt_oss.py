"""gpt-oss: OpenAI's open-weight models, 20B and 120B.

Attention heads have sinks; every second layer sees a window. The feed-forward norm's tensor has attention's name.
Router and experts have biases, which the file shows. The router takes a softmax over the chosen experts, which equals
one over all, renormalised.
"""

from engine.models.family import Family

GPT_OSS = Family(
    "gpt-oss",
    rope_mode="neox",
    ffn_norm="post_attention_norm",
    activation="swiglu_oai",
    sinks=True,
    window_period=2,
    experts=True,
)
