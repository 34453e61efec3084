#!/usr/bin/env python3
# Copyright The Quadrille Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files of the tokenizer tests with the libraries that users bring tokenizers from.

    python3 -m venv VENV && VENV/bin/pip install tokenizers sentencepiece
    VENV/bin/python scripts/make_tokenizer_goldens.py

Writes below tests/data/: gpt2/cases.json (ids of GPT-2, whose merges are there), llama3_style/ and
gpt2_style/ (small tokenizers in the forms of Llama 3's and GPT-2's tokenizer.json, and cases), and
sentencepiece/ (a small BPE model with byte fallback in the form of Llama 2's, and a unigram model,
and cases). Training is deterministic; only new versions of the libraries can change the files.
"""

import io
import json
import pathlib
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")

HAND_WRITTEN = [
    "", " ", "a", "\n", "\x00", "Hello, world!", "  two  spaces  ", "It's we'LL I'VE he'd 's 'S",
    "don't you've they're I'm ''s 're", "x=1;//c\r\n\r\n  if (y) {\n\t\treturn 12345678;\n}\n",
    "naïve café — 東京 🚀🚀 Ünïcödé", "١٢٣ ¼ ½ Ⅷ ²", "\u200bzero\xa0nbsp\u3000wide\u2028line\u180emongol\x85nel",
    "<|endoftext|>", "a<|endoftext|>b <|begin_of_text|>c", "ſ'ſ K'ſ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "e\u0301 \u0301 अनुच्छेद ประเทศไทย", "\ufeffbom \ufffd \U0010ffff", "tail   ", "\n\n\n   x", "   \n \n x",
    "1,234.5678e-10 0x7F", "....!!!???\n\n", " \t \r \v \f x", "the theatre of the them",
]
PIECES = list("abcstretheing .,'!?-_\n\r\t 0123456789éßñ") + [
    " the", " of", "ing", "'s", "'ll", "'RE", "  ", "\n\n", "\r\n", "東", "京", "🚀", "é", "е", "й",
    "\u0301", "\xa0", "\u2003", "\u180e", "\x85", "٣", "½", "Ⅷ", "<|", "|>", "<|endoftext|>", "\x00", "\u200d"]


def texts():
    rng = random.Random(7)
    fuzzed = ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 40))) for _ in range(120)]
    wild = ["".join(chr(rng.choice([rng.randrange(0x80), rng.randrange(0x800), rng.randrange(0xD800),
                                    rng.randrange(0x10000, 0x30000)])) for _ in range(rng.randint(1, 12)))
            for _ in range(60)]
    return HAND_WRITTEN + fuzzed + wild


def training_lines():
    rng = random.Random(3)
    words = ("the of and in to that was he for it with as his on be at by had not are but from or have an they "
             "which one you were all her she there would their we him been has when who will no more if out so up "
             "said what its about than into them can only other time new some could these two may first then do any "
             "my now such like our over man me even most made after also did many off before must through years "
             "where much your way well down should because long each just state people those too mister how little "
             "good world make very year still see own work men day get here old life both between being under three "
             "never know same last another while us might great go come since against right came take used himself "
             "few house use place american during high without again home around small however found café naïve").split()
    for _ in range(3000):
        line = " ".join(rng.choice(words) for _ in range(rng.randint(3, 14)))
        yield line.capitalize() + rng.choice([".", "!", "?", ", it's " + str(rng.randrange(100000)), ";", " — 東京", "'ll"])


def write(path, value, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":"), **options) + "\n")


def cases(encode):
    return [{"text": text, "ids": encode(text)} for text in texts()]


def byte_tokens():
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printing]
    return [chr(b) for b in printing] + [chr(256 + i) for i in range(len(others))]


def gpt2():
    lines = (ROOT / "gpt2" / "merges.txt").read_text().splitlines()[1:]
    merges = [tuple(line.split(" ")) for line in lines]
    tokens = byte_tokens() + ["".join(merge) for merge in merges] + ["<|endoftext|>"]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    write(ROOT / "gpt2" / "cases.json", cases(lambda text: tokenizer.encode(text).ids))


def trained(pre_tokenizer, specials, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(training_lines(), trainer)
    value = json.loads(tokenizer.to_str())
    if ignore_merges:
        # Words that no merges lead to: only ignore_merges gives their ids.
        for word in ["\u0120house", "\u0120theatre", "them"]:
            value["model"]["vocab"].setdefault(word, len(value["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(value))
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    return tokenizer


def tokenizer_json(name, tokenizer):
    folder = ROOT / name
    write(folder / "tokenizer.json", json.loads(tokenizer.to_str()))
    special = [{"text": text, "ids": tokenizer.encode(text).ids} for text in HAND_WRITTEN]
    # What stands in a text is ordinary text unless special tokens are asked for: ids without them
    # come from the same tokenizer before they were added.
    plain = json.loads(tokenizer.to_str())
    plain["added_tokens"] = []
    ordinary = Tokenizer.from_str(json.dumps(plain))
    write(folder / "cases.json", cases(lambda text: ordinary.encode(text).ids))
    write(folder / "special_cases.json", special)


def sentencepiece_models():
    folder = ROOT / "sentencepiece"
    folder.mkdir(parents=True, exist_ok=True)
    common = {"hard_vocab_limit": False, "character_coverage": 1.0, "minloglevel": 2, "num_threads": 1}
    kinds = {
        "llama2_style": {"model_type": "bpe", "vocab_size": 640, "byte_fallback": True,
                         "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                         "split_digits": True, "allow_whitespace_only_pieces": True},
        "unigram": {"model_type": "unigram", "vocab_size": 400, "normalization_rule_name": "identity"},
    }
    for name, options in kinds.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=training_lines(), model_writer=model,
                                                 **common, **options)
        (folder / f"{name}.model").write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        write(folder / f"{name}_cases.json", cases(processor.encode))


def main():
    gpt2()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer_json("gpt2_style", trained(byte_level, ["<|endoftext|>"], False))
    split = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer_json("llama3_style", trained(split, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], True))
    sentencepiece_models()


if __name__ == "__main__":
    main()
