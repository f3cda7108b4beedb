"""Trains the two small SentencePiece models of the tests on a generated text, and writes the library's ids for
many texts. Needs spm_train and the Python package sentencepiece; run it in this folder.
"""

import random, json, subprocess, sentencepiece as spm

random.seed(7)
names = "the fox, a lantern, my uncle, the quiet harbour, an old clock, the baker, two sparrows, the river, a paper boat, the night train".split(
    ", "
)
verbs = "waited for, painted, forgot, repaired, carried, followed, sang about, counted, borrowed, found".split(
    ", "
)
places = "under the bridge, near the mill, in the attic, behind the garden wall, at the station, before breakfast, during the storm, without a map".split(
    ", "
)
ends = [".", "!", "?", " again.", ", and nobody minded.", "; 42 times.", " -- 1,234.50 in all."]
other = [
    "Der Mond scheint über dem stillen Dorf.",
    "Une étoile tombe près de la forêt.",
    "El niño encontró una piña mañana.",
    "Привет, мир! Как дела?",
    "日本語の小さな例文です。",
    "今天天气很好。",
    "def area(w, h):\n    return w * h",
    "for (int i = 0; i < 10; ++i) sum += i;",
    "key: [1, 2, 3]",
]
with open("/tmp/skald_train.txt", "w") as f:
    for i in range(4000):
        f.write(
            f"{random.choice(names)} {random.choice(verbs)} {random.choice(names)} {random.choice(places)}{random.choice(ends)}\n".capitalize()
        )
        if i % 9 == 0:
            f.write(random.choice(other) + "\n")
common = [
    "spm_train",
    "--input=/tmp/skald_train.txt",
    "--minloglevel=2",
    "--character_coverage=0.999",
    "--num_threads=1",
]
subprocess.run(
    common
    + [
        "--model_prefix=bpe",
        "--model_type=bpe",
        "--vocab_size=560",
        "--byte_fallback=true",
        "--normalization_rule_name=identity",
        "--remove_extra_whitespaces=false",
        "--allow_whitespace_only_pieces=true",
        "--split_digits=true",
        "--control_symbols=[INST],[/INST],<|end|>",
        "--user_defined_symbols=<tool>,\u2581\u2581\u2581\u2581\u2581",
    ],
    check=True,
)
open("/tmp/skald_rules.tsv", "w").write(
    "".join(
        "\t".join([" ".join("%X" % ord(c) for c in a), " ".join("%X" % ord(c) for c in b)]) + "\n"
        for a, b in [
            ("ﬁ", "fi"),
            ("\t", " "),
            ("\u3000", " "),
            ("Ａ", "A"),
            ("e\u0301", "é"),
            ("½", "1/2"),
            ("\u00ad", ""),
        ]
    )
)
subprocess.run(
    common
    + [
        "--model_prefix=unigram",
        "--model_type=unigram",
        "--vocab_size=300",
        "--hard_vocab_limit=false",
        "--normalization_rule_tsv=/tmp/skald_rules.tsv",
        "--control_symbols=<|end|>",
        "--user_defined_symbols=<tool>",
    ],
    check=True,
)
texts = [
    "",
    " ",
    "  ",
    "     ",
    "      x",
    " x",
    "x ",
    "x  y",
    "hello world",
    "Hello, World!",
    "The fox waited for a lantern under the bridge.",
    "\t",
    "\n",
    "\n\n",
    "a\nb",
    "\r\n",
    "\t\tint x;\n",
    "tab\tseparated\tvalues",
    "  leading and trailing  ",
    "many          spaces",
    "    four",
    "     five",
    "          ten",
    "1",
    "12",
    "123",
    "1234567890",
    "3.14159",
    "-1,234.50",
    "1e-9",
    "0x1F",
    "½",
    "Ⅵ",
    "①②③",
    "é",
    "e\u0301",
    "naïve café",
    "Ångström",
    "Cửa Việt",
    "über dem stillen Dorf",
    "ﬁne ﬁsh",
    "Привет, мир!",
    "Привет",
    "ПРИВЕТ",
    "日本語",
    "今天天气很好。",
    "日本語の小さな例文です。",
    "한국어 문장",
    "ภาษาไทย",
    "हिन्दी में",
    "العربية",
    "עברית",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "Ａ full width",
    "\u3000ideographic\u3000space",
    "\u00a0nbsp\u00a0",
    "\u2003em\u2003space",
    "\u200bzero\u200bwidth",
    "\u200d",
    "\ufeffbom",
    "\ufffd",
    "\u2581",
    "\u2581x",
    "x\u2581y",
    "\u2581\u2581\u2581\u2581\u2581",
    "a\u2581\u2581\u2581\u2581\u2581\u2581b",
    "\u2028\u2029",
    "soft\u00adhyphen",
    "😀",
    "😀😀",
    "👩‍👩‍👧‍👦",
    "🇩🇪🇫🇷",
    "🏳️‍🌈 flag",
    "❤️",
    "text 🚀 rocket",
    "a\u0300\u0301\u0302\u0303b",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!",
    "<s>",
    "</s>",
    "<unk>",
    "<s>hello</s>",
    "a </s> b",
    "[INST] hi [/INST]",
    "<|end|>",
    "<tool>",
    "call <tool> now",
    "<tool><tool>",
    " <tool> ",
    "x<tool>y",
    "<0x41>",
    "<0x0A>",
    "<0xFF>",
    "<pad>",
    "<",
    "<s",
    "s>",
    "[INST",
    "\x00",
    "a\x00b",
    "\x00\x00",
    "\x01\x02\x03",
    "\x7f",
    "\x1b[31mred\x1b[0m",
    "".join(chr(i) for i in range(1, 32)),
    "".join(chr(i) for i in range(32, 127)),
    "".join(chr(i) for i in range(128, 256)),
    "def area(w, h):\n    return w * h",
    "for (int i = 0; i < 10; ++i) sum += i;",
    "if x:\n\treturn {\n\t\t'a': [1, 2]\n\t}",
    "https://example.org/a?b=c&d=%20#e",
    '{"key": "value", "n": [1,2,3]}',
    "C:\\path\\to\\file",
    "don't can't I'm we've you'll",
    "''''''\"\"\"\"\"\"",
    "!!!!!!??????......",
    "=======",
    "-----",
    "___",
    "a_b_c",
    "CamelCaseWord",
    "ALL CAPS TEXT",
    "mIxEd",
    "a" * 300,
    "ab" * 150,
    " " * 100,
    "\n" * 50,
    "0" * 80,
    "é" * 60,
    "日" * 60,
    "😀" * 30,
    "x " * 80,
    "the" * 70,
    "the " * 70,
    "z\u0301" * 40,
    "<tool>" * 20,
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "antidisestablishmentarianism",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
]
random.seed(11)
alphabet = list("abcdehtou  \n\t.,0") + [
    "é",
    "ß",
    "日",
    "本",
    "😀",
    "\u0301",
    "П",
    "<tool>",
    "</s>",
    "\u2581",
    "ﬁ",
]
for _ in range(40):
    texts.append("".join(random.choice(alphabet) for _ in range(random.randint(2, 60))))
for _ in range(15):
    texts.append(
        "".join(
            chr(
                random.choice(
                    [
                        random.randint(0, 0x24F),
                        random.randint(0x370, 0xD7FF),
                        random.randint(0xE000, 0xFFFF),
                        random.randint(0x10000, 0x1FFFF),
                    ]
                )
            )
            for _ in range(random.randint(1, 25))
        )
    )
for n in ["bpe", "unigram"]:
    p = spm.SentencePieceProcessor(model_file=n + ".model")
    cases = []
    for t in texts:
        ids = p.encode(t)
        cases.append({"text": t, "ids": ids, "decoded": p.decode(ids)})
    # id sequences that no text gives: half characters, control tokens inside, spaces at the start
    rnd = random.Random(5)
    seqs = []
    for k in range(60):
        bias = [3 + k % 5, rnd.randrange(len(p))]
        seqs.append(
            [
                rnd.choice(
                    [
                        rnd.randrange(len(p)),
                        rnd.randrange(min(len(p), 264)),
                        0,
                        1,
                        2,
                        p.piece_to_id("\u2581"),
                    ]
                )
                for _ in range(rnd.randint(1, 14))
            ]
        )
    seqs += [[i] for i in range(0, len(p), 7)]
    dec = [{"ids": s, "decoded": p.decode(s)} for s in seqs]
    json.dump(
        {"reference": "sentencepiece " + spm.__version__, "cases": cases, "decodings": dec},
        open(n + ".golden.json", "w"),
        ensure_ascii=True,
        separators=(",", ":"),
    )
    print(n, len(p), len(cases), len(dec))
