# SPDX-License-Identifier: MIT
"""Train tokenizers with Hugging Face's library and encode many texts, for test_tokenizers.py in a separate virtual environment.

tokenizer_calls.py FOLDER SEED COUNT    writes NAME.json, a tokenizer, and NAME.cases: [text, ids or null, decoded text] of each
text
"""
import io
import json
import pathlib
import random
import sys
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = """The quick brown fox jumps over the lazy dog. Don't stop, it's only 12,345.67 words; we do not mind!
Voix ambiguë d'un cœur qui, au zéphyr, préfère les jattes de kiwis. Où est-ce que l'été naît ? Ça va, garçon.
Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich – Straße, Fußgänger, ÄÖÜ.
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío, añoraba a su querido cachorro. ¿Qué? ¡Sí!
Pchnąć w tę łódź jeża lub ośm skrzyń fig. Příliš žluťoučký kůň úpěl ďábelské ódy.
Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлка, йод и подъезд.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ὁ βίος βραχύς, ἡ δὲ τέχνη μακρή.
דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם עֲלֵיכֶם
صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت يَحظى الضَجيعُ بِها نَجلاءَ مِعطارِ
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम।
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน
敏捷的棕色狐狸跳过懒狗。我能吞下玻璃而不伤身体。繁體字與简体字，漢字。
いろはにほへと ちりぬるを わかよたれそ つねならむ。カタカナ、ﾊﾝｶｸ、がぎぐげご。
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 한국어 텍스트
I can eat glass 🍷 and it doesn't hurt me 😀👍🏽 👨‍👩‍👧‍👦 🇫🇷🇩🇪 ☕️ ✈️ ①②③ ½ ﬁne ﬂag ＡＢＣ１２３ ™ ℃ № Ⅷ
naïve café résumé coöperate façade piñata jalapeño smörgåsbord Ångström İstanbul ıspanak ǅ
C:\\path\\to\\file.txt http://example.com/?q=1&r=2#top user@example.org <b>bold</b> {"a": [1, 2.5e-3]} x_1 = y^2 + 3*z;
tokens tokenizer tokenization tokenized unbelievable unbelievably believing believed walking walked walker talks talked""".split("\n")
MARKS = "\u0300\u0301\u0308\u0327\u0323\u0345\u05b0\u064b\u093f\u094d\u0e34\u200d\ufe0f\u3099\u20dd\u1100\u1161\u11a8"
ODD = " \t\n\r\u00a0\u2003\u3000\u200b\u00ad\ufeff\u2581\ufffd\u0085\u180e\u2028\u0001\u007f\u0378\ue000\U0001f9ff\U000e0001\U0010ffff\u0130\u0149\u01c4\ufb03\ufdfa\u1e9e\uac01\u1fd3\u0f73\u0344\u0958\u2126\u212b"
BLANK = "\u2581"


# ---- texts

def piece(rnd):
    line = rnd.choice(TEXTS)
    begin = rnd.randrange(len(line))
    kind = rnd.randrange(8)
    if kind < 4:
        return line[begin:begin + rnd.randrange(1, 12)]
    if kind == 4:
        return rnd.choice(line.split())
    if kind == 5:
        return rnd.choice(MARKS) * rnd.randrange(1, 3)
    if kind == 6:
        return rnd.choice(ODD) * rnd.randrange(1, 3)
    return chr(rnd.choice([rnd.randrange(32, 127), rnd.randrange(0xa0, 0x2000), rnd.randrange(0x3000, 0xd7a4), rnd.randrange(0x1f300, 0x1f600)]))


def whole(text):
    """Removes characters whose Unicode class changed after the library's tables, which are of several versions."""
    old = unicodedata.ucd_3_2_0.category
    return "".join(c for c in text if c in TEXTS_AND_ODD or (old(c) != "Cn" and old(c) == unicodedata.category(c)))


TEXTS_AND_ODD = {*"".join(TEXTS), *MARKS, *ODD}


def strings(seed, count, special):
    rnd = random.Random(seed)
    found = ["", " ", "  ", "a", BLANK, *TEXTS, "e\u0301" * 40, "a" + "\u0323\u0301" * 30 + "b", "x" * 120 + " y", "\u0301", "<unk>", "hello<unk><unk>you"]
    for _ in range(count):
        parts = [piece(rnd) for _ in range(rnd.randrange(1, 9))]
        if rnd.randrange(4) == 0:
            parts.insert(rnd.randrange(len(parts)), rnd.choice(special))
        found.append(whole(rnd.choice(["", "", " ", "  "]).join(parts)))
    return found


# ---- tokenizers

def charsmap():
    """Returns SentencePiece's character map nmt_nfkc, from a model that SentencePiece trains."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=700, hard_vocab_limit=False, minloglevel=2)

    def fields(data):
        at = 0

        def number():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = number()
            if key & 7 == 2:
                size = number()
                yield key >> 3, data[at:at + size]
                at += size
            elif key & 7 == 5:
                at += 4
            else:
                number()
    normalizer = next(value for number, value in fields(model.getvalue()) if number == 3)
    return next(value for number, value in fields(normalizer) if number == 2)


def wordpiece(normalizer, pre_tokenizer, decoder, post=None, prefix="##", **model):
    made = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix, **model))
    made.normalizer, made.pre_tokenizer = normalizer, pre_tokenizer
    made.train_from_iterator(TEXTS * 2, trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], continuing_subword_prefix=prefix,
                                                                  show_progress=False))
    if model:  # the trainer builds its own model
        state = json.loads(made.to_str())
        state["model"].update(model)
        made = Tokenizer.from_str(json.dumps(state))
    made.decoder = decoder
    if post is not None:
        made.post_processor = post(made)
    return made


def unigram(normalizer, pre_tokenizer, decoder, post=None, fallback=False, unknown=True, size=700):
    made = Tokenizer(models.Unigram())
    made.normalizer, made.pre_tokenizer = normalizer, pre_tokenizer
    made.train_from_iterator(TEXTS, trainers.UnigramTrainer(vocab_size=size, special_tokens=["<pad>", "<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    state = json.loads(made.to_str())
    if fallback:
        state["model"]["vocab"] += [[f"<0x{value:02X}>", -20.0] for value in range(256)]
        state["model"]["byte_fallback"] = True
    if not unknown:
        state["model"]["unk_id"] = None
    made = Tokenizer.from_str(json.dumps(state))
    if decoder is not None:
        made.decoder = decoder
    if post is not None:
        made.post_processor = post(made)
    return made


def bpe(normalizer, pre_tokenizer, decoder):
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizer
    made.train_from_iterator(TEXTS[:8], trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>"], show_progress=False))
    made.decoder = decoder
    return made


def raw(normalizer, pre_tokenizer=None):
    """A tokenizer in which each byte after the steps is a token, and pieces begin with a mark."""
    vocab = [("<unk>", 0.0), *((f"<0x{value:02X}>", -1.0) for value in range(256))]
    made = Tokenizer(models.Unigram(vocab, 0, True))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Sequence([*([pre_tokenizer] if pre_tokenizer is not None else []), pre_tokenizers.Metaspace("\u2581", "always", False)])
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return made


def bert_template(made):
    return processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                         special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")])


def bert_processing(made):
    return processors.BertProcessing(("[SEP]", made.token_to_id("[SEP]")), ("[CLS]", made.token_to_id("[CLS]")))


def roberta_processing(made):
    return processors.RobertaProcessing(("</s>", made.token_to_id("</s>")), ("<s>", made.token_to_id("<s>")))


def with_end(made):
    return processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", made.token_to_id("</s>"))])


def with_added(made, *tokens):
    made.add_tokens(list(tokens))
    return made


def all_of_them():
    chars = charsmap()
    n, p, d = normalizers, pre_tokenizers, decoders
    spaces = d.Sequence([d.Replace(BLANK, " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])
    yield "bert", with_added(wordpiece(n.BertNormalizer(), p.BertPreTokenizer(), d.WordPiece(), bert_template),
                             AddedToken("[NEW]", normalized=True), AddedToken("\u00c9t\u00e9", normalized=True), AddedToken("qq", normalized=False, lstrip=True, rstrip=True))
    yield "bert.cased", wordpiece(n.BertNormalizer(lowercase=False), p.BertPreTokenizer(), d.WordPiece(cleanup=False), bert_processing)
    yield "bert.plain", wordpiece(n.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=True), p.BertPreTokenizer(), d.WordPiece())
    yield "wordpiece.short", wordpiece(n.Sequence([n.NFD(), n.Lowercase(), n.StripAccents()]), p.Whitespace(), d.WordPiece("@@"), prefix="@@", max_input_chars_per_word=5)
    yield "wordpiece.parts", wordpiece(n.NFKC(), p.Sequence([p.WhitespaceSplit(), p.Punctuation("merged_with_previous"), p.Digits(True)]), d.WordPiece())
    yield "xlm", with_added(unigram(n.Sequence([n.Precompiled(chars), n.Replace(Regex(" {2,}"), " ")]), p.Metaspace(), d.Metaspace(), roberta_processing),
                            AddedToken("<mask>", lstrip=True, normalized=False, special=True), AddedToken("[NEW]", normalized=True), AddedToken("\ufb01ne", normalized=True))
    yield "t5", unigram(n.Sequence([n.Precompiled(chars), n.Strip(False, True), n.Replace(Regex(r"\s{2,}"), BLANK)]),
                        p.Sequence([p.WhitespaceSplit(), p.Metaspace()]), d.Metaspace(), with_end)
    yield "albert", unigram(n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(), n.Precompiled(chars)]), p.Metaspace(),
                            d.Metaspace(), fallback=True)
    yield "unigram.bytes", unigram(n.NFC(), p.Metaspace(prepend_scheme="first", split=False), spaces, fallback=True)
    yield "unigram.never", unigram(n.Sequence([n.NFKC(), n.Strip()]), p.Metaspace("_", "never"), d.Metaspace("_", "never"))
    yield "unigram.bare", unigram(n.Lowercase(), p.Split(Regex(r"\d+|\s"), "isolated"), None)
    yield "unigram.strict", unigram(n.Lowercase(), p.Metaspace(), d.Metaspace(), unknown=False)
    yield "bpe.words", bpe(n.NFC(), p.Whitespace(), d.Sequence([d.Fuse()]))
    yield "bpe.blanks", bpe(n.Sequence([n.Prepend(BLANK), n.Replace(" ", BLANK)]), p.Split(" ", "merged_with_next"), spaces)
    yield "bpe.bytes", bpe(None, p.ByteLevel(), d.ByteLevel())
    for name, normalizer in (("nfc", n.NFC()), ("nfd", n.NFD()), ("nfkc", n.NFKC()), ("nfkd", n.NFKD()), ("lower", n.Lowercase()), ("marks", n.StripAccents()),
                             ("strip", n.Strip()), ("clean", n.BertNormalizer()), ("cleancased", n.BertNormalizer(lowercase=False)), ("chars", n.Precompiled(chars))):
        yield "each." + name, raw(normalizer)
    for name, splitter in (("words", p.Whitespace()), ("blanks", p.WhitespaceSplit()), ("bert", p.BertPreTokenizer()), ("digits", p.Digits(True)), ("numbers", p.Digits()),
                           ("punctuation", p.Punctuation("contiguous")), ("runs", p.Split(Regex(r"\p{L}+"), "removed", True))):
        yield "each." + name, raw(None, splitter)


def points():
    """Yields all characters in groups, with separators that prevent joins."""
    every = [chr(point) for point in range(1, 0x110000) if not 0xd800 <= point < 0xe000]
    every = whole("".join(every))
    return ["".join("x" + c for c in every[at:at + 48]) for at in range(0, len(every), 48)]


def encode(made, text):
    try:
        ids = made.encode(text).ids
    except Exception:  # noqa: BLE001 (the library raises nothing narrower)
        return None, None
    return ids, made.decode(ids)


def main():
    folder, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    every = points()
    for name, made in all_of_them():
        (folder / (name + ".json")).write_text(made.to_str())
        texts = strings(seed, count, ["[MASK]", "[UNK]", "[NEW]", "[new]", "\u00c9t\u00e9", "ete", " qq ", "<mask>", " <mask> ", "<s>", "</s>", "<0x41>", "\ufb01ne", "fine"])
        if name.startswith("each."):
            texts += every
        (folder / (name + ".cases")).write_text(json.dumps([[text, *encode(made, text)] for text in texts]))


if __name__ == "__main__":
    main()
