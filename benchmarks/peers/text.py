"""GPTs: a plain one, transformers, x-transformers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..models import Text
from . import Logits, Peer
from .plain import PlainGPT

SWIGLU_RATIO = 2.5


def plain(shape: Text) -> nn.Module:
    return PlainGPT(shape.vocab, shape.context, shape.dim, shape.heads, shape.depth)


def gpt2(shape: Text) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    # the tanh of its own activation costs 2.5 times as much on a CPU: both take the one without
    config = GPT2Config(
        vocab_size=shape.vocab, n_positions=shape.context, n_embd=shape.dim, n_layer=shape.depth, n_head=shape.heads,
        activation_function="gelu", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    return Logits(GPT2LMHeadModel(config))


def sizes(shape: Text) -> dict[str, Any]:
    """What newer models of transformers call the same."""
    return {
        "vocab_size": shape.vocab, "hidden_size": shape.dim, "num_hidden_layers": shape.depth,
        "num_attention_heads": shape.heads, "max_position_embeddings": shape.context, "use_cache": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
    }  # fmt: skip


def llama(shape: Text) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        **sizes(shape), intermediate_size=int(SWIGLU_RATIO * shape.dim), num_key_value_heads=shape.heads,
        tie_word_embeddings=False,
    )  # fmt: skip
    return Logits(LlamaForCausalLM(config))


def neox(shape: Text) -> nn.Module:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(**sizes(shape), intermediate_size=4 * shape.dim, use_parallel_residual=False)
    return Logits(GPTNeoXForCausalLM(config))


def bloom(shape: Text) -> nn.Module:
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(
        vocab_size=shape.vocab, hidden_size=shape.dim, n_layer=shape.depth, n_head=shape.heads, use_cache=False
    )
    model = BloomForCausalLM(config)
    model.transformer.word_embeddings_layernorm = nn.Identity()  # a norm that ours has not
    return Logits(model)


class T5Decoder(nn.Module):
    """T5's decoder as a language model: what looks at an encoder is taken out."""

    def __init__(self, shape: Text) -> None:
        from transformers import T5Config
        from transformers.models.t5.modeling_t5 import T5Stack

        super().__init__()
        config = T5Config(
            vocab_size=shape.vocab, d_model=shape.dim, d_kv=shape.dim // shape.heads, d_ff=4 * shape.dim,
            num_layers=shape.depth, num_heads=shape.heads, dropout_rate=0.0, feed_forward_proj="relu",
            is_decoder=True, is_encoder_decoder=False, use_cache=False,
        )  # fmt: skip
        self.stack = T5Stack(config)
        for block in self.stack.block:
            del block.layer[1]
        self.head = nn.Linear(shape.dim, shape.vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.stack(input_ids=tokens).last_hidden_state)


def x_transformers(shape: Text, absolute: bool = False, **encoding: Any) -> nn.Module:
    """With its fused attention wherever the encoding allows it, which its T5 bias does not."""
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=shape.dim, depth=shape.depth, heads=shape.heads, attn_dim_head=shape.dim // shape.heads,
        attn_flash="rel_pos_bias" not in encoding, ff_no_bias=True, verbose=False, **encoding,
    )  # fmt: skip
    return TransformerWrapper(
        num_tokens=shape.vocab, max_seq_len=shape.context, attn_layers=layers, tie_embedding=True,
        use_abs_pos_emb=absolute,
    )  # fmt: skip


def rotary(shape: Text) -> nn.Module:
    return x_transformers(shape, rotary_pos_emb=True, rotary_emb_dim=shape.dim // shape.heads)


RMS = ("model.norm=rmsnorm", "model.bias=false", "model.tie=false")
NO_BIAS = ("model.bias=false",)

PEERS = (
    Peer("plain, after nanoGPT", "learned", plain, ("positions",), goal=0.97),
    Peer("transformers GPT-2", "learned", gpt2, ("wpe",), goal=0.82),
    Peer(
        "transformers Llama", "rope", llama, goal=0.82,
        overrides=(*RMS, "model.activation=swiglu", f"model.mlp_ratio={SWIGLU_RATIO}"),
    ),
    Peer("transformers GPT-NeoX", "rope", neox, overrides=("model.tie=false",), goal=0.82),
    Peer("transformers Bloom", "alibi", bloom, overrides=("model.activation=gelu_tanh",), goal=0.82),
    Peer(
        "transformers T5 decoder", "t5", T5Decoder, ("relative_attention_bias",), goal=0.82,
        overrides=(*RMS, "model.activation=relu"),
    ),
    Peer("x-transformers absolute", "learned", lambda s: x_transformers(s, absolute=True), ("pos_emb",), NO_BIAS, 0.85),
    Peer("x-transformers rotary", "rope", rotary, (), NO_BIAS, 0.85),
    Peer("x-transformers alibi", "alibi", lambda s: x_transformers(s, alibi_pos_bias=True), (), NO_BIAS, 0.85),
    Peer("x-transformers T5 bias", "t5", lambda s: x_transformers(s, rel_pos_bias=True), ("rel_pos",), NO_BIAS, 0.75),
)  # fmt: skip
