"""Writes the ids that Hugging Face's tokenizers gives to texts, with many rules for cutting and normalizing and two
vocabularies: byte.tokenizer.json, which must exist, and spm.tokenizer.json, which this script trains. Needs the
Python package tokenizers; run it in this folder.
"""

import json, random
from tokenizers import Tokenizer, AddedToken, models, trainers, pre_tokenizers

random.seed(7)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
CASED = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
CAPITALS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{CASED}|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

texts = [
    "", " ", "   ", "\n\n", "Hello world", " Hello, World!", "    Hello\n    Hello", "hello\r\nworld\r\n", " \t\n x",
    "I'm you're he'll we'd they've IT'S DON'T 'ſ", "33333 1,234.5 ½ Ⅷ ①② ٣٤", "naïve cafe\u0301 Å \u1e9b\u0323 \uac00 \u1100\u1161",
    "привет, мир!", "今天天气不错，こんにちは 안녕", "मारता \u0e04\u0e33", "🚀 😶\u200d🌫️ 🇩🇪", "\xa0a\u2003b\u3000c\u180ed\u200be\ufefff\x85g",
    "<s>not a bos</s>", "<|im_start|>user\nhi<|im_end|>\n", "a <|l|>  b <|r|>  c word words  <|lr|>  é!É!", "<0x0A> ▁literal▁", "a\x00b\x1f",
    "def f(x):\n\treturn x ** 2  # comment\n", "HTTPServer camelCase XMLHttp", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b",
    "\u2028line\u2029", "İıẞßſK ﬁ ﬀ", "x=1;y/=2//\n!!!\n", "trailing  ",
]
flags = [
    AddedToken("<|l|>", lstrip=True, special=True, normalized=False),
    AddedToken("<|r|>", rstrip=True, normalized=False),
    AddedToken("word", single_word=True),
    AddedToken("<|lr|>", lstrip=True, rstrip=True, normalized=True),
    AddedToken("É!", normalized=True),
]


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def byte(*steps, **more):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False} | more
    return {"type": "Sequence", "pretokenizers": [*steps, level]}


def regex(pattern, *arguments):
    return split({"Regex": pattern}, *arguments)


digits = {"type": "Digits", "individual_digits": True}
meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
llama2 = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]}
to_space = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
fallback = [to_space, {"type": "ByteFallback"}, {"type": "Fuse"}]
keep_space = {"type": "Sequence", "decoders": fallback}
drop_space = {"type": "Sequence", "decoders": fallback + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}

# name, vocabulary, changed parts, added tokens
variants = [
    ("gpt-2", "byte", {"pre_tokenizer": byte(use_regex=True)}, []),
    ("gpt-2 with a prefix", "byte", {"pre_tokenizer": byte(use_regex=True, add_prefix_space=True)}, flags),
    ("llama-bpe", "byte", {"pre_tokenizer": byte(regex(LLAMA3)), "ignore_merges": True}, []),
    ("qwen2", "byte", {"pre_tokenizer": byte(regex(QWEN2)), "normalizer": {"type": "NFC"}}, flags),
    ("nfkd", "byte", {"pre_tokenizer": byte(regex(QWEN2)), "normalizer": {"type": "NFKD"}}, []),
    ("tekken", "byte", {"pre_tokenizer": byte(regex(TEKKEN)), "ignore_merges": True}, []),
    ("smollm", "byte", {"pre_tokenizer": byte(digits, use_regex=True)}, flags),
    ("removed", "byte", {"pre_tokenizer": byte(regex(r"\s|[aeiou]", "Removed"))}, []),
    ("merged with previous", "byte", {"pre_tokenizer": byte(regex(r"\s|[aeiou]", "MergedWithPrevious"))}, []),
    ("merged with next", "byte", {"pre_tokenizer": byte(regex(r"\s|[aeiou]", "MergedWithNext"))}, []),
    ("contiguous, inverted", "byte", {"pre_tokenizer": byte(regex(r"\s|[aeiou]", "Contiguous", True))}, []),
    ("strings and punctuation", "byte",
     {"pre_tokenizer": byte(split({"String": "e."}), {"type": "Punctuation", "behavior": "Contiguous"})}, []),
    ("words and lines", "byte", {"pre_tokenizer": byte(regex(r"\w+|\d|[^\w\s]+|$|^\S"))}, []),
    ("empty matches", "byte", {"pre_tokenizer": byte(regex(r"l*"))}, []),
    ("llama 2", "spm", {"normalizer": llama2, "decoder": drop_space}, flags),
    ("mistral, not legacy", "spm", {"pre_tokenizer": meta | {"prepend_scheme": "first", "split": False}, "decoder": drop_space}, flags),
    ("metaspace", "spm", {"pre_tokenizer": meta, "decoder": drop_space}, flags),
    ("gemma", "spm", {"normalizer": replace, "pre_tokenizer": split({"String": " "}, "MergedWithPrevious"), "decoder": keep_space},
     [AddedToken("▁▁", normalized=False), AddedToken("\n\n", normalized=False)]),
    ("without bytes", "spm", {"normalizer": llama2, "decoder": drop_space, "byte_fallback": False, "fuse_unk": True}, []),
]


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def train_spm():
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=special + [f"<0x{i:02X}>" for i in range(256)], show_progress=False)
    words = "the fox lantern waited for my uncle in a quiet harbour Hello world hello not literal return def comment".split()
    lines = [" ".join(random.choices(words, k=8)) + random.choice([".", "!", "\n", " 12"]) for _ in range(500)]
    t.train_from_iterator(lines + ["привет мир"] * 9, trainer)
    made = json.loads(t.to_str())
    made["added_tokens"] = [a for a in made["added_tokens"] if a["content"] in special]
    made["pre_tokenizer"] = None
    open("spm.tokenizer.json", "w").write(dump(made) + "\n")


train_spm()
out = {"reference": "tokenizers " + __import__("tokenizers").__version__, "texts": texts, "variants": []}
for name, base, changes, added in variants:
    made = json.load(open(f"{base}.tokenizer.json"))
    for key, value in changes.items():
        (made["model"] if key in made["model"] else made)[key] = value
    t = Tokenizer.from_str(json.dumps(made))
    t.add_tokens(added)
    full = json.loads(t.to_str())
    parts = {k: full[k] for k in ("added_tokens", "normalizer", "pre_tokenizer", "decoder")}
    model = {k: v for k, v in full["model"].items() if k in ("ignore_merges", "byte_fallback", "fuse_unk")}
    cases = {"ids": [], "plain": {}, "decoded": {}}  # plain, decoded: where they differ
    for i, text in enumerate(texts):
        t.encode_special_tokens = False
        ids = t.encode(text, add_special_tokens=False).ids
        t.encode_special_tokens = True
        plain = t.encode(text, add_special_tokens=False).ids
        cases["ids"].append(ids)
        if plain != ids:
            cases["plain"][i] = plain
        if t.decode(ids) != text:
            cases["decoded"][i] = t.decode(ids)
    out["variants"].append({"name": name, "base": base, "parts": parts, "model": model} | cases)
lines = [f'{{"reference":{dump(out["reference"])},"texts":{dump(texts)},"variants":[']
lines.append(",\n".join(dump(v) for v in out["variants"]))
open("hf.golden.json", "w").write("\n".join(lines) + "\n]}\n")
