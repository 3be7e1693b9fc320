"""Real checkpoints of some kilobytes: a Llama of two layers, a tokenizer trained on the spot."""

from __future__ import annotations

from pathlib import Path

from engine.serving import calls

_TEXT = [
    'To call a tool, write <tool_call>{"name": "final_answer", "arguments": {"commands": "x"}}',
    "turn on the kitchen light and set the bedroom heater to twenty degrees please",
    "system user assistant tool_response Tools, one JSON line each: properties required string",
]


def tokenizer(extra: str = "") -> object:
    """A byte-level BPE with the ChatML marks, as fast tokenizers have them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([*_TEXT, extra], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
    )


def write_checkpoint(
    folder: Path, seed: int = 0, *, hidden: int = 32, tied: bool = True, extra: str = ""
) -> Path:
    """A checkpoint with random weights at ``folder``, in bf16 and with the Hermes template."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    words = tokenizer(extra)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=400,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    model.save_pretrained(folder)
    words.save_pretrained(folder)  # type: ignore[attr-defined]
    calls.install(folder)
    (folder / "README.md").write_text("# pico\n")
    return folder


def write_speaker(folder: Path, reply: str, mark: str = "") -> Path:
    """A checkpoint that says ``reply`` to everything, whoever serves it: ``reply`` is one token of
    its own, the only one that the rest leads to. ``says.txt`` tells it to what isn't a model."""
    import torch
    from tokenizers import AddedToken
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    words = tokenizer(mark)
    words.add_tokens([AddedToken(reply, normalized=False)])  # type: ignore[attr-defined]
    said, end = words.convert_tokens_to_ids(reply), 2  # type: ignore[attr-defined]
    config = LlamaConfig(
        vocab_size=448,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=end,
        pad_token_id=end,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.model.layers.parameters():
            if weight.dim() == 2:
                weight.zero_()  # what goes in comes out: the last token alone decides
        model.model.embed_tokens.weight.zero_()
        model.model.embed_tokens.weight[:, 0] = 1.0
        model.model.embed_tokens.weight[said] = torch.eye(64)[1]
        model.lm_head.weight.zero_()
        model.lm_head.weight[said, 0] = model.lm_head.weight[end, 1] = 8.0
    model = model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=end, pad_token_id=end)
    model.save_pretrained(folder)
    words.save_pretrained(folder)  # type: ignore[attr-defined]
    calls.install(folder)
    (folder / "says.txt").write_text(reply)
    (folder / "README.md").write_text("# pico\n")
    return folder
