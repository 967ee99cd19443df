#!/usr/bin/env python3
"""Makes tokenizers/*.json and tokenizer_golden.h: small byte-level tokenizers of the kinds of GPT-2 and Llama 3, and what
Hugging Face's `tokenizers` makes of some texts with them. Needs that library (PyPI: tokenizers); the tests need only the files,
which are committed:

    python3 make_tokenizers.py > tokenizer_golden.h
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent / "tokenizers"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CORPUS = ["the quick brown fox jumps over the lazy dog; the dog didn't mind, and they'll do it again in 2024, 2025 and 2026.",
          "In the beginning God created the heaven and the earth. And the earth was without form, and void;",
          "Die Straße über den Fluß war naß. Ça va? Où êtes-vous allés hier soir, à l'école?",
          "def main():\n    for i in range(10):\n        print(i)\n\n\n    return 0\n", "привет мир, как дела? 你好世界 你好 こんにちは 世界"] * 3
TEXTS = ["", " ", "a", "the the dog", "In the beginning, they'll see: 12345 67!", "  leading and trailing  ", "tabs\t\tand\r\n\r\nlines \n x",
         "DON'T SHOUT, it's we've I'M you'Re", "Straße naïve Ça va où", "привет, мир! 你好世界 こんにちは", "🙂👩‍👩‍👧 é e\u0301",
         "a\u00a0b\u2003c\u180ed\u0085e\u200bf", "x²½Ⅷ٣४", "<|end|>the<|end|><|endless|> <|end", "[pad]the[pad]", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "\u0000\u0001\u007f\u0100\u0142", "_snake_case--dash…", "'s 'ſ 'S", "The" + " " * 40 + "end"]


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def digits():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def prefix_space():
    tokenizer = gpt2()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def train(name, tokenizer, vocabulary):
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|end|>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(["<|endless|>"])
    tokenizer.add_tokens([AddedToken("[pad]", normalized=True)])
    if name == "llama3":
        end = tokenizer.token_to_id("<|end|>")
        tokenizer.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False),
             processors.TemplateProcessing(single="<|end|> $A", special_tokens=[("<|end|>", end)])])
    tokenizer.save(str(HERE / f"{name}.json"), pretty=False)
    return tokenizer


def literal(text):
    return '"' + "".join(f"\\{byte:03o}" if byte < 32 or byte > 126 or chr(byte) in '"\\?' else chr(byte)
                         for byte in text.encode()) + '"'


def main():
    HERE.mkdir(exist_ok=True)
    print("// Made by make_tokenizers.py. Do not edit.\n#pragma once\n\n#include <cstdint>\n#include <string_view>\n#include <vector>\n")
    print("namespace causeway::golden {\n\nstruct Tokenized {\n  std::string_view text;\n  std::vector<std::int32_t> tokens;\n};\n")
    for name, make in (("gpt2", gpt2), ("llama3", llama3), ("digits", digits), ("prefix_space", prefix_space)):
        tokenizer = train(name, make(), 400)
        print(f"inline const std::vector<Tokenized> kTokenized{name.title().replace('_', '')} = {{")
        for text in TEXTS:
            tokens = tokenizer.encode(text, add_special_tokens=False).ids
            length = len(text.encode())
            print(f"    {{{{{literal(text)}, {length}}}, {{{', '.join(map(str, tokens))}}}}},")
        print("};\n")
    print("}  // namespace causeway::golden")


if __name__ == "__main__":
    main()
