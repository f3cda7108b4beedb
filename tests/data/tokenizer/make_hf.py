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

# The rules that a GGUF names in tokenizer.ggml.pre, as the models' own tokenizer.json files have them.
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{CASED}(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
KIMI = "[\\p{Han}]+|" + O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace("[\\r\\n/]*", "[\\r\\n]*")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r" ?[^\s\p{L}\p{N}]", r" ?[^\s\p{L}\p{M}\p{N}]")
SEED = QWEN2.replace(r"[^\s\p{L}\p{N}]+[\r\n]*", r"[^\s\p{L}\p{N}\r\n]+")
BAILING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
V3_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
V3_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# The letters of scripts that have capitals.
DEEPSEEK_LETTERS = (
    r"\s?["
    r"A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}"
    r"\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}"
    r"\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}"
    r"\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}"
    r"\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}"
    r"\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}"
    r"\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}"
    r"\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}"
    r"\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}"
    r"\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}"
    r"\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}"
    r"\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}"
    "]+"
)
DEEPSEEK_MARKS = "\\s?[!-/:-~！-／：-～‘-‟　-。]+"

texts = [
    "", " ", "   ", "\n\n", "Hello world", " Hello, World!", "    Hello\n    Hello", "hello\r\nworld\r\n", " \t\n x",
    "I'm you're he'll we'd they've IT'S DON'T 'ſ", "33333 1,234.5 ½ Ⅷ ①② ٣٤", "naïve cafe\u0301 Å \u1e9b\u0323 \uac00 \u1100\u1161",
    "привет, мир!", "今天天气不错，こんにちは 안녕", "मारता \u0e04\u0e33", "🚀 😶\u200d🌫️ 🇩🇪", "\xa0a\u2003b\u3000c\u180ed\u200be\ufefff\x85g",
    "<s>not a bos</s>", "<|im_start|>user\nhi<|im_end|>\n", "a <|l|>  b <|r|>  c word words  <|lr|>  é!É!", "<0x0A> ▁literal▁", "a\x00b\x1f",
    "def f(x):\n\treturn x ** 2  # comment\n", "HTTPServer camelCase XMLHttp", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b",
    "1234567 12 1 ,1234567.89 v12345b", "`a` $b+c<=d>e^f~g|h `", "snake_case _x __init__ 'tis don't We'LL", "\u0915\u094d\u0937_\u093e a\u0301b _\u0301j",
    "漢字かな混じり123文ABC。ｶﾅ 한국어12 「括弧」", "a  \n b\r\n\n  c!\n\n/\n//\n x  ", "\u2028line\u2029", "İıẞßſK ﬁ ﬀ", "x=1;y/=2//\n!!!\n", "trailing  ",
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

digit_run = {"type": "Digits", "individual_digits": False}
# name in a GGUF, normalizer, rules before ByteLevel, ByteLevel's own rule
named = [
    ("gpt-4o", None, [regex(O200K)], False),
    ("kimi-k2", None, [regex(KIMI)], False),
    ("qwen35", {"type": "NFC"}, [regex(QWEN35)], False),
    ("glm4", None, [regex(LLAMA3)], False),
    ("seed-coder", None, [regex(SEED)], False),
    ("bailingmoe", None, [regex(BAILING)], False),
    ("tiny_aya", None, [regex(r"\d{1,3}(?=(?:\d{3})*\b)"), regex(O200K)], False),
    ("deepseek-v3", None, [regex(r"\p{N}{1,3}"), regex(V3_CJK), regex(V3_WORDS)], False),
    ("deepseek-llm", None, [regex("[\r\n]"), regex(DEEPSEEK_LETTERS), regex(DEEPSEEK_MARKS), regex(r"\s+$"), regex(DEEPSEEK_CJK), digit_run], False),
    ("deepseek-coder", None, [regex("[\r\n]"), regex(r"\s?\p{L}+"), regex(r"\s?\p{P}+"), regex(DEEPSEEK_CJK), digits], False),
]

whole_first = {"glm4"}  # names whose tokenizer.json has ignore_merges

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


def byte_lengths(text, offsets):
    return [len(text[a:b].encode()) for a, b in offsets]


train_spm()
variants += [
    (name, "byte", {"pre_tokenizer": byte(*steps, use_regex=own), "normalizer": normalizer, "ignore_merges": name in whole_first}, []) for name, normalizer, steps, own in named
]
with_cuts = {v[0] for v in named} | {"gpt-2", "llama-bpe", "qwen2", "tekken", "smollm"}
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
    if name in with_cuts:  # the length in bytes of each part that is merged by itself
        cases["cuts"] = [
            byte_lengths(normal, [o for _, o in t.pre_tokenizer.pre_tokenize_str(normal)])
            for normal in (t.normalizer.normalize_str(x) if t.normalizer else x for x in texts)
        ]
    out["variants"].append({"name": name, "base": base, "parts": parts, "model": model} | cases)
lines = [f'{{"reference":{dump(out["reference"])},"texts":{dump(texts)},"variants":[']
lines.append(",\n".join(dump(v) for v in out["variants"]))
open("hf.golden.json", "w").write("\n".join(lines) + "\n]}\n")
