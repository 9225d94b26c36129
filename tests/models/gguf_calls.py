# SPDX-License-Identifier: MIT
"""Build the tokenizer of a GGUF file with Hugging Face's library, in the form of its models' tokenizer.json, and encode random
texts.

    gguf_calls.py FILE SEED COUNT    writes [text, ids] of each text as JSON to stdout, or null if no tokenizer.json is known for
                                     this kind of file

For test_gguf_tokenizers.py, which runs this script in a separate virtual environment.
"""
import json
import pathlib
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokenizer_calls import BLANK, strings

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4  # token types


def metadata(path):
    """Returns the keys of a GGUF file, with a reader that is independent of the tested code."""
    data, at = path.read_bytes(), 24

    def take(form):
        nonlocal at
        value, = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size:at].decode()

    def value(kind):
        nonlocal at
        if kind == TEXT:
            return text()
        if kind != ARRAY:
            return take(FORMATS[kind])
        kind, count = take("I"), take("Q")
        if kind == TEXT:
            return [text() for _ in range(count)]
        values = struct.unpack_from(f"<{count}{FORMATS[kind]}", data, at)
        at += struct.calcsize(f"<{count}{FORMATS[kind]}")
        return list(values)

    count, = struct.unpack_from("<Q", data, 16)
    return {name: value(take("I")) for name in (text() for _ in range(count))}


# ---- the pre-tokenizers of tokenizer.json, by the name in the GGUF file

def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(*before, regex=False):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)])


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MARKED = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
LATIN = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
         "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
         "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
         "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
         "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
         "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
         "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
NFC = normalizers.NFC()
DIGITS = pre_tokenizers.Digits(individual_digits=True)
# name: (normaliser, pre-tokenizer, whether a word that is a token becomes that token at once)
PRE = {
    "gpt-2": (None, byte_level(regex=True), False),
    "mpt": (NFC, byte_level(regex=True), False),
    "smollm": (None, byte_level(DIGITS, regex=True), False),
    "starcoder": (None, byte_level(DIGITS, regex=True), False),
    "refact": (None, byte_level(DIGITS, regex=True), False),
    "command-r": (NFC, byte_level(DIGITS, regex=True), False),
    "llama-bpe": (None, byte_level(split(CONTRACTIONS + "|" + WORDS + r"|\p{N}{1,3}|" + REST)), True),
    "qwen2": (NFC, byte_level(split(CONTRACTIONS + "|" + WORDS + r"|\p{N}|" + REST)), False),
    "qwen35": (None, byte_level(split(CONTRACTIONS + "|" + MARKED)), False),
    "falcon": (None, pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), split("[0-9][0-9][0-9]")]), False),
    "deepseek-coder": (None, byte_level(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(HAN), DIGITS), False),
    "deepseek-llm": (None, byte_level(split("[\r\n]"), split(r"\s?[" + LATIN + "]+"), split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split(r"\s+$"),
                                      split(HAN), DIGITS), False),
}


# ---- models

def pairs(merges):
    return [(merge[:at], merge[at + 1:]) for merge in merges for at in (merge.index(" ", 1),)]


def gpt2(keys, vocab):
    normalizer, pre_tokenizer, whole = PRE[keys["tokenizer.ggml.pre"]]
    made = Tokenizer(models.BPE(vocab, pairs(keys["tokenizer.ggml.merges"]), ignore_merges=whole))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizer
    made.decoder = decoders.ByteLevel()
    return made


def gemma4(keys, vocab):
    made = Tokenizer(models.BPE(vocab, pairs(keys["tokenizer.ggml.merges"]), byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Replace(" ", BLANK)
    return made


def llama(keys, vocab):
    """Builds merges as the library converts SentencePiece models: every pair of tokens whose concatenation is a token, by the
    score of the result."""
    merges = []
    for text, score in zip(keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.scores"]):
        here = [(text[:at], text[at:]) for at in range(1, len(text)) if text[:at] in vocab and text[at:] in vocab]
        merges += [(score, pair) for pair in sorted(here, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))]
    merges.sort(key=lambda merge: -merge[0])
    made = Tokenizer(models.BPE(vocab, [pair for _, pair in merges], byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)])
    return made


def bert(keys, vocab):
    types = keys["tokenizer.ggml.token_type"]
    words = {text if types[number] != 1 else text[len(BLANK):] if text.startswith(BLANK) else "##" + text: number for text, number in vocab.items()}
    made = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def t5(keys, vocab):
    scores = keys["tokenizer.ggml.scores"]
    made = Tokenizer(models.Unigram([(text, scores[number]) for text, number in vocab.items()], keys["tokenizer.ggml.unknown_token_id"]))
    chars = normalizers.Precompiled(bytes(keys["tokenizer.ggml.precompiled_charsmap"]))
    made.normalizer = normalizers.Sequence([chars, normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(BLANK, "always")])
    return made


def library(keys):
    """Returns (the library's tokenizer or None, the texts of its added tokens)."""
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    model = keys["tokenizer.ggml.model"]
    if model == "gpt2" and keys.get("tokenizer.ggml.pre") not in PRE:
        return None, []
    made = {"gpt2": gpt2, "gemma4": gemma4, "llama": llama, "bert": bert, "t5": t5}[model](keys, {text: number for number, text in enumerate(tokens)})
    phi3 = keys.get("general.name", "").lower().startswith("phi3")
    added, texts = [], []
    for text, kind in zip(tokens, types):
        if kind in (UNKNOWN, CONTROL, USER_DEFINED):
            texts.append(text)
            added.append(AddedToken(text, special=kind != USER_DEFINED, normalized=False, lstrip=text == "<mask>" and model == "t5",
                                    rstrip=phi3 and text not in ("<unk>", "<s>", "<|endoftext|>")))
    made.add_tokens(added)
    return made, texts


def main():
    file, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    made, special = library(metadata(file))
    if made is None:
        print("null")
        return
    texts = strings(seed, count, special or ["<s>"])
    print(json.dumps([[text, found.ids] for text, found in zip(texts, made.encode_batch(texts, add_special_tokens=False))]))


if __name__ == "__main__":
    main()
