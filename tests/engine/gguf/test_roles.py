from __future__ import annotations

import pytest

from engine.gguf.roles import TensorRole, layer_of, tensor_role


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("token_embd.weight", TensorRole.EMBEDDING),
        ("token_embd_norm.weight", TensorRole.NORM),
        ("per_layer_token_embd.weight", TensorRole.EMBEDDING),
        ("output.weight", TensorRole.OUTPUT),
        ("output_norm.weight", TensorRole.NORM),
        ("rope_freqs.weight", TensorRole.ROPE),
        ("blk.0.attn_q.weight", TensorRole.MIXER),
        ("blk.0.attn_q.bias", TensorRole.MIXER),
        ("blk.12.attn_q_norm.weight", TensorRole.NORM),
        ("blk.12.attn_norm_2.weight", TensorRole.NORM),
        ("blk.0.post_attention_norm.weight", TensorRole.NORM),
        ("blk.0.attn_kv_a_mqa.weight", TensorRole.MIXER),
        ("blk.0.attn_sinks.weight", TensorRole.MIXER),
        ("blk.0.ssm_conv1d.weight", TensorRole.MIXER),
        ("blk.0.ffn_down.weight", TensorRole.FEED_FORWARD),
        ("blk.0.ffn_gate_inp.weight", TensorRole.ROUTER),
        ("blk.0.exp_probs_b.bias", TensorRole.ROUTER),
        ("blk.0.ffn_gate_exps.weight", TensorRole.EXPERTS),
        ("blk.0.ffn_gate_up_exps.bias", TensorRole.EXPERTS),
        ("blk.0.ffn_gate.7.weight", TensorRole.EXPERTS),
        ("blk.0.ffn_down_shexp.weight", TensorRole.SHARED_EXPERTS),
        ("blk.46.nextn.eh_proj.weight", TensorRole.PREDICTION),
        ("blk.x.attn_q.weight", TensorRole.OTHER),
        ("mm.0.weight", TensorRole.OTHER),
        ("", TensorRole.OTHER),
    ],
)
def test_roles(name: str, role: TensorRole) -> None:
    assert tensor_role(name) is role


def test_layers() -> None:
    assert layer_of("blk.12.attn_q.weight") == 12
    assert layer_of("output.weight") is None
    assert layer_of(f"blk.{10**20}.attn_q.weight") is None
