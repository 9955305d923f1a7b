"""Logits of small random models of transformers, reproduced with copied weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from poslab.models import GPT, Transformer
from poslab.positions import Positions, Spec
from poslab.positions.alibi import ALiBi
from poslab.positions.learned import Learned
from poslab.positions.rope import RoPE
from poslab.positions.scaling import DynamicNTK, Linear, Llama3, LongRoPE, Scaling, YaRN
from poslab.positions.t5 import T5

from .copying import by_head, put, put_blocks, put_linear, put_norm, randomise

transformers = pytest.importorskip("transformers")

DIM, HEADS, DEPTH, VOCAB, LENGTH = 24, 3, 2, 17, 13
TOKENS = torch.randint(VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(1))


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def gpt(**options: Any) -> GPT:
    """Ours, with parameters that are wrong until they are copied."""
    model = GPT(**{"vocab": VOCAB, "context": 64, "dim": DIM, "heads": HEADS, "depth": DEPTH} | options)
    for parameter in model.parameters():
        nn.init.constant_(parameter, float("nan"))
    return model.eval()


def test_gpt2() -> None:
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=64, n_embd=DIM, n_layer=DEPTH, n_head=HEADS, attn_implementation="eager"
    )
    theirs = randomise(transformers.GPT2LMHeadModel(config))
    ours, trunk = gpt(pos=Learned, activation="gelu_tanh"), theirs.transformer
    put(ours.tokens.weight, trunk.wte.weight)
    put(ours.trunk.encoding.table, trunk.wpe.weight)
    for block, layer in zip(put_blocks(ours.trunk.blocks, [(x.ln_1, x.ln_2) for x in trunk.h]), trunk.h):
        # their maps are stored transposed
        put_linear(block.attention.qkv, layer.attn.c_attn.weight.T, layer.attn.c_attn.bias)
        put_linear(block.attention.out, layer.attn.c_proj.weight.T, layer.attn.c_proj.bias)
        put_linear(block.mlp.up, layer.mlp.c_fc.weight.T, layer.mlp.c_fc.bias)
        put_linear(block.mlp.down, layer.mlp.c_proj.weight.T, layer.mlp.c_proj.bias)
    put_norm(ours.trunk.norm, trunk.ln_f)
    same(ours(TOKENS), theirs(TOKENS).logits)


def llama(pos: Callable[[Spec], RoPE], context: int = 64, **rope: Any) -> tuple[GPT, Any]:
    """Ours and theirs with the same random weights, and theirs with these parameters of RoPE."""
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=DIM, intermediate_size=40, num_hidden_layers=DEPTH, num_attention_heads=HEADS,
        num_key_value_heads=HEADS, rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=False,
        max_position_embeddings=context, attn_implementation="eager",
    )  # fmt: skip
    theirs = randomise(transformers.LlamaForCausalLM(config))
    ours = gpt(pos=pos, activation="swiglu", norm="rmsnorm", bias=False, tie=False, mlp_ratio=40 / DIM, context=context)
    put(ours.tokens.weight, theirs.model.embed_tokens.weight)
    norms = [(x.input_layernorm, x.post_attention_layernorm) for x in theirs.model.layers]
    for block, layer in zip(put_blocks(ours.trunk.blocks, norms), theirs.model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        put_linear(
            block.attention.qkv, torch.cat([x.weight for x in (attention.q_proj, attention.k_proj, attention.v_proj)])
        )
        put_linear(block.attention.out, attention.o_proj.weight)
        put_linear(block.mlp.up, torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)))
        put_linear(block.mlp.down, mlp.down_proj.weight)
    put_norm(ours.trunk.norm, theirs.model.norm)
    put_linear(ours.head, theirs.lm_head.weight)
    return ours, theirs


@pytest.mark.parametrize("theta", [10_000.0, 500.0])
def test_llama(theta: float) -> None:
    ours, theirs = llama(lambda spec: RoPE(spec, theta=theta), rope_type="default", rope_theta=theta)
    same(ours(TOKENS), theirs(TOKENS).logits)


LONG, SHORT = [1.0, 2.0, 3.0, 4.0], [1.0, 1.1, 1.2, 1.3]


@pytest.mark.parametrize("length", [8, 32, 50])
@pytest.mark.parametrize(
    "scaling, rope",
    [
        (Linear(4.0), {"rope_type": "linear", "factor": 4.0}),
        (DynamicNTK(4.0), {"rope_type": "dynamic", "factor": 4.0}),
        (YaRN(4.0), {"rope_type": "yarn", "factor": 4.0}),
        (YaRN(4.0, truncate=False), {"rope_type": "yarn", "factor": 4.0, "truncate": False}),
        (Llama3(8.0), {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}),
        (
            LongRoPE(LONG, SHORT, factor=4.0),
            {"rope_type": "longrope", "factor": 4.0, "long_factor": LONG, "short_factor": SHORT},
        ),
    ],
    ids=["linear", "dynamic", "yarn", "yarn exact", "llama3", "longrope"],
)
def test_llama_beyond_its_length(scaling: Scaling, rope: dict[str, Any], length: int) -> None:
    """Trained on 16 positions: half as long, twice, three times; by a model that has just read more."""
    if rope["rope_type"] in ("yarn", "llama3", "longrope"):
        rope = rope | {"original_max_position_embeddings": 16}
    ours, theirs = llama(lambda spec: RoPE(spec, scaling=scaling), context=16, rope_theta=10_000.0, **rope)
    tokens = torch.randint(VOCAB, (2, length))
    ours(torch.randint(VOCAB, (1, 60)))
    logits = ours(tokens)
    same(logits, theirs(tokens).logits)
    plain, _ = llama(RoPE, context=16, rope_type="default", rope_theta=10_000.0)
    stays = rope["rope_type"] == "dynamic" and length == 8
    assert torch.equal(logits, plain(tokens)) == stays  # it matters which rule it is


@pytest.mark.parametrize("fraction", [0.25, 0.5, 1.0])
def test_gpt_neox(fraction: float) -> None:
    dim = 48  # heads of 16, of which a quarter is two pairs
    config = transformers.GPTNeoXConfig(
        vocab_size=VOCAB, hidden_size=dim, intermediate_size=4 * dim, num_hidden_layers=DEPTH,
        num_attention_heads=HEADS, use_parallel_residual=False, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": fraction},
    )  # fmt: skip
    theirs = randomise(transformers.GPTNeoXForCausalLM(config))
    ours, trunk = gpt(pos=lambda spec: RoPE(spec, fraction=fraction), dim=dim, tie=False), theirs.gpt_neox
    put(ours.tokens.weight, trunk.embed_in.weight)
    norms = [(x.input_layernorm, x.post_attention_layernorm) for x in trunk.layers]
    for block, layer in zip(put_blocks(ours.trunk.blocks, norms), trunk.layers):
        qkv = layer.attention.query_key_value
        put_linear(block.attention.qkv, by_head(qkv.weight, HEADS), by_head(qkv.bias, HEADS))
        put_linear(block.attention.out, layer.attention.dense.weight, layer.attention.dense.bias)
        put_linear(block.mlp.up, layer.mlp.dense_h_to_4h.weight, layer.mlp.dense_h_to_4h.bias)
        put_linear(block.mlp.down, layer.mlp.dense_4h_to_h.weight, layer.mlp.dense_4h_to_h.bias)
    put_norm(ours.trunk.norm, trunk.final_layer_norm)
    put_linear(ours.head, theirs.get_output_embeddings().weight)
    same(ours(TOKENS), theirs(TOKENS).logits)


@pytest.mark.parametrize("heads", [3, 4])
def test_bloom(heads: int) -> None:
    config = transformers.BloomConfig(
        vocab_size=VOCAB, hidden_size=DIM, n_layer=DEPTH, n_head=heads, attn_implementation="eager"
    )
    theirs = randomise(transformers.BloomForCausalLM(config))
    theirs.transformer.word_embeddings_layernorm = nn.Identity()  # ours has no norm on the tokens
    ours, trunk = gpt(pos=ALiBi, heads=heads, activation="gelu_tanh"), theirs.transformer
    put(ours.tokens.weight, trunk.word_embeddings.weight)
    norms = [(x.input_layernorm, x.post_attention_layernorm) for x in trunk.h]
    for block, layer in zip(put_blocks(ours.trunk.blocks, norms), trunk.h):
        qkv = layer.self_attention.query_key_value
        put_linear(block.attention.qkv, by_head(qkv.weight, heads), by_head(qkv.bias, heads))
        put_linear(block.attention.out, layer.self_attention.dense.weight, layer.self_attention.dense.bias)
        put_linear(block.mlp.up, layer.mlp.dense_h_to_4h.weight, layer.mlp.dense_h_to_4h.bias)
        put_linear(block.mlp.down, layer.mlp.dense_4h_to_h.weight, layer.mlp.dense_4h_to_h.bias)
    put_norm(ours.trunk.norm, trunk.ln_f)
    same(ours(TOKENS), theirs(TOKENS).logits)


@pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])
def test_t5(causal: bool) -> None:
    """The encoder and the decoder, which has other buckets; its look at an encoder is silenced."""
    config = transformers.T5Config(
        vocab_size=VOCAB, d_model=DIM, d_kv=DIM // HEADS, d_ff=40, num_layers=DEPTH, num_heads=HEADS,
        relative_attention_num_buckets=8, relative_attention_max_distance=10, dropout_rate=0.0,
        feed_forward_proj="relu", attn_implementation="eager", decoder_start_token_id=0,
    )  # fmt: skip
    theirs = randomise(transformers.T5Model(config))
    stack = theirs.decoder if causal else theirs.encoder
    ours = Transformer(
        dim=DIM, heads=HEADS, depth=DEPTH, extent=(64,), causal=causal, activation="relu", norm="rmsnorm",
        norm_eps=config.layer_norm_epsilon, bias=False, mlp_ratio=40 / DIM,
        pos=lambda spec: T5(spec, buckets=8, max_distance=10),
    ).eval()  # fmt: skip
    put(ours.encoding.table, stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight)
    norms = [(x.layer[0].layer_norm, x.layer[-1].layer_norm) for x in stack.block]
    for block, layer in zip(put_blocks(ours.blocks, norms), stack.block):
        attention, mlp = layer.layer[0].SelfAttention, layer.layer[-1].DenseReluDense
        # T5 has no 1/sqrt(D) in its scores: the queries carry it
        q = attention.q.weight * (DIM // HEADS) ** 0.5
        put_linear(block.attention.qkv, torch.cat((q, attention.k.weight, attention.v.weight)))
        put_linear(block.attention.out, attention.o.weight)
        put_linear(block.mlp.up, mlp.wi.weight)
        put_linear(block.mlp.down, mlp.wo.weight)
        if causal:
            nn.init.zeros_(layer.layer[1].EncDecAttention.o.weight)
    put_norm(ours.norm, stack.final_layer_norm)
    if causal:
        expected = theirs(input_ids=TOKENS, decoder_input_ids=TOKENS).last_hidden_state
    else:
        expected = theirs.encoder(input_ids=TOKENS).last_hidden_state
    same(ours(theirs.shared(TOKENS), Positions.line(LENGTH)), expected)
