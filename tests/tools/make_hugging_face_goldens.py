#!/usr/bin/env python3
# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/hugging_face: small random models as transformers writes them, and what torch
computes with them, for tests/checkpoint/hugging_face_golden_test.cc.

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors numpy
    venv/bin/python tests/tools/make_hugging_face_goldens.py tests/golden/hugging_face

Each folder has the model (config.json and its safetensors) and golden.safetensors with

    tokens   [S, T]        int32    sequences
    logits   [S, T, V]     float32  of these
    batches  [10, B, T+1]  int32    inputs and, one further, targets of ten steps
    losses   [10]          float64  mean loss of each step before its update
    norms    [10]          float64  norm of each step's gradient before clipping

The steps are AdamW's with the hyper-parameters below; matrices and embeddings decay, biases and
norms do not. Weights kept in 16 bits are read back as float32 before anything is computed.

    make_hugging_face_goldens.py --continue FOLDER TEXT TOKENS

loads a folder, takes each byte of TEXT as a token and prints the greedy continuation as text.
"""

import os
import shutil
import sys

import numpy
import torch
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

STEPS, BATCH, SEQUENCE, VOCABULARY = 10, 2, 8, 260
LEARNING_RATE, BETAS, EPSILON, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-8, 0.1, 1.0


def gpt2(**changes):
    return GPT2Config(
        vocab_size=VOCABULARY, n_positions=12, n_embd=16, n_layer=2, n_head=4,
        embd_pdrop=0, resid_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0, **changes)


def llama(**changes):
    values = dict(
        vocab_size=VOCABULARY, max_position_embeddings=12, hidden_size=16, intermediate_size=24,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5,
        bos_token_id=0, eos_token_id=0)
    values.update(changes)
    return LlamaConfig(**values)


LLAMA3 = dict(rope_type="llama3", rope_theta=50.0, factor=4.0, low_freq_factor=1.0,
              high_freq_factor=2.0, original_max_position_embeddings=16)

CASES = {
    "gpt2_tied": (gpt2(), {}),
    "gpt2_untied": (gpt2(tie_word_embeddings=False, n_inner=24, layer_norm_epsilon=1e-3), {}),
    "gpt2_bf16_shards": (gpt2(), dict(dtype=torch.bfloat16, max_shard_size="12KB")),
    "llama_grouped": (llama(), {}),
    "llama_tied_linear": (llama(
        tie_word_embeddings=True,
        rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=100.0)), {}),
    "llama3_f16": (llama(head_dim=6, num_key_value_heads=1, max_position_embeddings=64,
                         rope_parameters=LLAMA3), dict(dtype=torch.float16)),
}


def randomise(model):
    for name, parameter in sorted(model.named_parameters()):
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        parameter.data = torch.randn(parameter.shape) * 0.3 + (1.0 if is_norm else 0.0)


def loss_of(model, batch):
    logits = model(batch[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def train(model, batches):
    parameters = list(model.parameters())
    groups = [
        dict(params=[p for p in parameters if p.dim() >= 2], weight_decay=DECAY),
        dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)
    losses, norms = [], []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, CLIP)))
        losses.append(float(loss.detach()))
        optimizer.step()
    return losses, norms


def make_case(folder, config, dtype=torch.float32, max_shard_size="1GB"):
    shutil.rmtree(folder, ignore_errors=True)
    model = AutoModelForCausalLM.from_config(config)
    randomise(model)
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()
    tokens = torch.randint(0, VOCABULARY, (3, SEQUENCE))
    with torch.no_grad():
        logits = model(tokens).logits
    batches = torch.randint(0, VOCABULARY, (STEPS, BATCH, SEQUENCE + 1))
    losses, norms = train(model, batches)
    save_file(
        dict(tokens=tokens.numpy().astype(numpy.int32), logits=logits.numpy(),
             batches=batches.numpy().astype(numpy.int32), losses=numpy.array(losses),
             norms=numpy.array(norms)),
        os.path.join(folder, "golden.safetensors"))
    print(folder, "losses", losses[0], losses[-1])


def make_all(target):
    for index, (name, (config, options)) in enumerate(CASES.items()):
        torch.manual_seed(index + 1)
        make_case(os.path.join(target, name), config, **options)


def continue_text(folder, text, count):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()
    tokens = list(text.encode())
    for _ in range(count):
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    sys.stdout.buffer.write(bytes(token % 256 for token in tokens) + b"\n")


if __name__ == "__main__":
    if sys.argv[1] == "--continue":
        continue_text(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        make_all(sys.argv[1])
