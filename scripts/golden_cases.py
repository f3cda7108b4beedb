"""The tiny models that make_goldens.py makes: configurations, and the texts of each."""

VOCAB = 48
PLAIN = {  # the heads' dimensions do not add up to the width, as in Mistral Nemo
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FUSED = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def plain(model_type, **more):
    name = {"llama": "Llama", "mistral": "Mistral", "ministral": "Ministral", "granite": "Granite", "smollm3": "SmolLM3"}
    return {"architectures": [name[model_type] + "ForCausalLM"], "model_type": model_type, **PLAIN, **more}


LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0, 1.02, 1.05, 1.1, 1.3, 1.4],
    "long_factor": [1.05, 1.3, 2.1, 3.7, 5.9, 7.7],
}

SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def small(name, **more):
    return {"architectures": [name + "ForCausalLM"], "model_type": name.lower(), **SMALL, **more}


# For each text: its number of tokens, the context (0: the model's own), the length of the prompt for
# greedy tokens, and the number of greedy tokens.
TEXT = {"text": (48, 0, 8, 16)}
CASES = {
    "nemo": dict(
        config=plain("mistral", max_position_embeddings=128, rope_theta=1000000.0, sliding_window=None),
        weights="plain",
        gguf="llama",
        texts=TEXT,
    ),
    "ministral": dict(
        config=plain(
            "ministral",
            max_position_embeddings=128,
            rope_theta=100000.0,
            sliding_window=9,
            layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        ),
        weights="plain",
        texts=TEXT,
    ),
    "yarn": dict(
        config=plain(
            "llama",
            max_position_embeddings=128,
            rope_theta=10000.0,
            rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 8.0},
        ),
        weights="plain",
        gguf="llama",
        texts={"text": (96, 0, 40, 16)},
    ),
    "dynamic": dict(
        config=plain(
            "llama", max_position_embeddings=32, rope_theta=10000.0, rope_scaling={"type": "dynamic", "factor": 3.0}
        ),
        weights="plain",
        # Beyond the original context transformers changes the rotation with each new token, but not
        # that of cached tokens. No fixed context gives the same greedy tokens.
        texts={"short": (32, 0, 8, 16), "long": (64, 64, 0, 0)},
    ),
    "granite": dict(
        config=plain(
            "granite",
            max_position_embeddings=128,
            rope_theta=10000.0,
            embedding_multiplier=3.5,
            attention_multiplier=0.17,
            residual_multiplier=0.35,
            logits_scaling=1.7,
            attention_bias=False,
            mlp_bias=False,
        ),
        weights="plain",
        gguf="granite",
        texts=TEXT,
    ),
    "smollm3": dict(
        config=plain(
            "smollm3",
            max_position_embeddings=128,
            rope_theta=2000000.0,
            pad_token_id=0,
            use_sliding_window=False,
            sliding_window=None,
            no_rope_layers=[1, 1, 1, 0],
            no_rope_layer_interval=4,
        ),
        weights="plain",
        gguf="smollm3",
        texts=TEXT,
    ),
    "longrope": dict(
        config={
            "architectures": ["Phi3ForCausalLM"],
            "model_type": "phi3",
            **FUSED,
            "max_position_embeddings": 128,
            "original_max_position_embeddings": 32,
            "partial_rotary_factor": 0.75,
            "rope_theta": 10000.0,
            "rope_scaling": LONGROPE,
            "sliding_window": 21,
            "pad_token_id": 0,
            "attention_bias": False,
        },
        weights="fused",
        gguf="phi3",
        texts={"short": (32, 0, 8, 16), "long": (72, 128, 40, 16)},
    ),
    "qwen3": dict(
        config=small("Qwen3", head_dim=12, hidden_act="silu", rope_theta=1000000.0, tie_word_embeddings=True),
        gguf="qwen3",
        texts=TEXT,
    ),
    "qwen3-window": dict(
        config=small(
            "Qwen3",
            head_dim=12,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            use_sliding_window=True,
            sliding_window=7,
            max_window_layers=1,
        ),
        weights="qwen3",
        texts=TEXT,
    ),
    "qwen3moe": dict(
        config=small(
            "Qwen3Moe",
            model_type="qwen3_moe",
            head_dim=12,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            norm_topk_prob=True,
            decoder_sparse_step=1,
            mlp_only_layers=[],
        ),
        gguf="qwen3moe",
        texts=TEXT,
    ),
    "qwen3moe-dense": dict(
        config=small(
            "Qwen3Moe",
            model_type="qwen3_moe",
            head_dim=12,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            num_experts=4,
            num_experts_per_tok=3,
            moe_intermediate_size=8,
            norm_topk_prob=False,
            decoder_sparse_step=1,
            mlp_only_layers=[1],
            use_sliding_window=True,
            sliding_window=9,
        ),
        texts=TEXT,
    ),
    "mixtral": dict(
        config=small(
            "Mixtral",
            num_hidden_layers=1,
            intermediate_size=8,
            hidden_act="silu",
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=None,
        ),
        texts=TEXT,
    ),
    "gemma": dict(
        config=small("Gemma", head_dim=12, hidden_act="gelu_pytorch_tanh", hidden_activation=None),
        gguf="gemma",
        texts=TEXT,
    ),
    "gemma2": dict(
        config=small(
            "Gemma2",
            num_hidden_layers=3,
            head_dim=8,
            hidden_act="gelu_pytorch_tanh",
            hidden_activation="gelu_pytorch_tanh",
            query_pre_attn_scalar=8,
            sliding_window=7,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=5.0,
            cache_implementation="hybrid",
        ),
        gguf="gemma2",
        texts=TEXT,
    ),
    "gemma3": dict(
        config=small(
            "Gemma3",
            model_type="gemma3_text",
            num_hidden_layers=4,
            head_dim=8,
            hidden_activation="gelu_pytorch_tanh",
            query_pre_attn_scalar=8,
            sliding_window=7,
            sliding_window_pattern=3,
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
        ),
        gguf="gemma3",
        texts=TEXT,
    ),
    "olmo2": dict(
        config=small("Olmo2", hidden_act="silu", rope_theta=500000.0, tie_word_embeddings=False),
        gguf="olmo2",
        texts=TEXT,
    ),
    "olmo3": dict(
        config=small(
            "Olmo3",
            hidden_act="silu",
            rope_theta=500000.0,
            tie_word_embeddings=False,
            sliding_window=7,
            layer_types=["sliding_attention", "full_attention"],
            rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 8.0},
        ),
        weights="olmo2",
        gguf="olmo2",
        texts={"text": (96, 0, 40, 16)},
    ),
}
