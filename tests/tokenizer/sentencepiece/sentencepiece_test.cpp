#include "tokenizer/sentencepiece/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <chrono>

#include "engine/base/error.h"
#include "tests/tokenizer/tokenizer_data.h"

using namespace skald;
using namespace skald::test;

namespace {

const EncodeOptions kPlain = {.add_bos = false, .add_eos = false};

std::vector<int32_t> ids_of(const Tokenizer& t, std::string_view text, bool parse_special = false) {
  EncodeOptions options = kPlain;
  options.parse_special = parse_special;
  return t.encode(text, options);
}

std::vector<int32_t> continued(const Tokenizer& t, std::string_view text) {
  EncodeOptions options = kPlain;
  options.starts_text = false;
  return t.encode(text, options);
}

std::vector<int32_t> joined(std::initializer_list<std::vector<int32_t>> parts) {
  std::vector<int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// The SentencePiece library, as the reference for texts without a golden.
class Reference {
 public:
  explicit Reference(const std::filesystem::path& model) {
    REQUIRE(library_.Load(model.string()).ok());
  }
  std::vector<int32_t> encode(std::string_view text) const { return library_.EncodeAsIds(text); }
  const sentencepiece::SentencePieceProcessor& library() const { return library_; }

 private:
  sentencepiece::SentencePieceProcessor library_;
};

// A text that is long enough to be tokenized in parts, with many kinds of places to cut.
std::string long_text(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<std::string> parts = {
      "the ", "fox",          " ",    "\n",       "é",          "日本",
      "😀",    "lantern ",     "12",   ".",        "\t",         "<tool>",
      "</s>", "\xE2\x96\x81", "\xFF", "\xE2\x96", "waited for", "     ",
      "a",    "Привет ",      "\r\n", "0"};
  std::string text;
  while (text.size() < bytes) text += parts[random() % parts.size()];
  return text;
}

}  // namespace

TEST_CASE("the SentencePiece models of tests/data give the reference's ids and texts") {
  for (const std::string name : {"bpe", "unigram"}) {
    const auto tokenizer = open_sentencepiece(tokenizer_data(name + ".model"));
    check_goldens(*tokenizer, tokenizer_data(name + ".golden.json"));
  }
  const Vocabulary bpe = read_sentencepiece(tokenizer_data("bpe.model"));
  check_goldens(*make_sentencepiece(as_gguf_holds_it(bpe)), tokenizer_data("bpe.golden.json"));
}

TEST_CASE("published SentencePiece models give the reference's ids and texts") {
  if (!have_shared("tokenizers")) return;
  for (const std::string name : {"llama2", "mistral-v1", "mistral-v3"}) {
    const auto model = shared_dir() / "tokenizers" / (name + "-tokenizer.model");
    const auto golden = shared_dir() / "tokenizers" / (name + ".golden.json");
    check_goldens(*open_sentencepiece(model), golden);

    const Vocabulary vocabulary = read_sentencepiece(model);
    const auto made = make_sentencepiece(as_gguf_holds_it(vocabulary));
    check_goldens(*made, golden);

    const Reference reference(model);
    const auto& library = reference.library();
    REQUIRE(made->vocab_size() == library.GetPieceSize());
    for (int32_t id = 0; id < made->vocab_size(); ++id) {
      if (made->piece(id) != library.IdToPiece(id) ||
          vocabulary.scores[id] != library.GetScore(id) ||
          made->is_control(id) != library.IsControl(id) ||
          (made->kind(id) == TokenKind::Byte) != library.IsByte(id)) {
        FAIL("piece " << id << " differs from the library's");
      }
    }
    CHECK(made->special().bos == library.bos_id());
    CHECK(made->special().eos == library.eos_id());
    CHECK(made->special().unk == library.unk_id());
    CHECK(made->special().pad == library.pad_id());

    const std::string text = long_text(300000, 3);
    CHECK(ids_of(*made, text) == reference.encode(text));
  }
}

TEST_CASE("a text tokenized in parts has the ids of the whole") {
  for (const std::string name : {"bpe", "unigram"}) {
    const auto model = tokenizer_data(name + ".model");
    const auto tokenizer = open_sentencepiece(model);
    const Reference reference(model);
    for (uint32_t seed = 0; seed < 3; ++seed) {
      const std::string text = long_text(200000 + seed, seed);
      CHECK(ids_of(*tokenizer, text) == reference.encode(text));
    }
  }
  const auto model = tokenizer_data("bpe.model");
  const auto tokenizer = open_sentencepiece(model);
  const Reference reference(model);
  for (const std::string unit : {"a", " ", "0", "\n", "é", "日", "😀", "\xFF", "ab ", "e\u0301"}) {
    std::string text;
    while (text.size() < 140000) text += unit;
    CAPTURE(unit);
    CHECK(ids_of(*tokenizer, text) == reference.encode(text));
  }
}

TEST_CASE("a long text without a place to cut has the library's ids") {
  std::vector<std::filesystem::path> models = {tokenizer_data("bpe.model")};
  if (have_shared("tokenizers/llama2-tokenizer.model")) {
    for (const char* name : {"llama2", "mistral-v3"}) {
      models.push_back(shared_dir() / "tokenizers" / (name + std::string("-tokenizer.model")));
    }
  }
  const std::vector<std::vector<std::string>> alphabets = {
      {"a"}, {" "}, {"7"}, {"e", "r", "t", "h"}, {"\xF0\x9F\x98\x80"}, {"e", "r", "\xE9"}};
  std::mt19937 random(5);
  for (const auto& model : models) {
    const Reference reference(model);
    const auto tokenizer = open_sentencepiece(model);
    for (const auto& alphabet : alphabets) {
      std::string text;
      while (text.size() < 300'000) text += alphabet[random() % alphabet.size()];
      CAPTURE(model, alphabet);
      CHECK((ids_of(*tokenizer, text) == reference.encode(text)));
    }
  }
}

TEST_CASE("a text that would take all memory is refused") {
  const auto tokenizer = open_sentencepiece(tokenizer_data("bpe.model"));
  try {
    // Pieces may contain spaces, so that there is no place to cut.
    tokenizer->encode(std::string(17 << 20, ' '));
    FAIL("tokenized");
  } catch (const Error& error) {
    CHECK(error.code() == Exit::Failed);
  }
}

TEST_CASE("unknown characters side by side are one token, also across a cut") {
  Vocabulary v;
  v.pieces = {"<unk>", "a", "\xE2\x96\x81"};
  v.types = {2, 1, 1};
  const auto tokenizer = make_sentencepiece(v);
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += "é";
  CHECK(ids_of(*tokenizer, text + "a") == std::vector<int32_t>{2, 1, 0, 1});
  CHECK(tokenizer->decode(std::vector<int32_t>{2, 1, 0, 1}) == "a \u2047 a");
}

TEST_CASE("any bytes get the library's ids") {
  for (const std::string name : {"bpe", "unigram"}) {
    const auto model = tokenizer_data(name + ".model");
    const auto tokenizer = open_sentencepiece(model);
    const Reference reference(model);
    std::mt19937 random(9);
    for (int round = 0; round < 2000; ++round) {
      std::string text(random() % 12, '\0');
      for (char& c : text) {
        const uint32_t kind = random() % 4;
        c = static_cast<char>(kind == 0   ? random()
                              : kind == 1 ? 0x80 + random() % 128
                                          : " a\0e<"[random() % 5]);
      }
      CHECK(ids_of(*tokenizer, text) == reference.encode(text));
    }
  }
}

TEST_CASE("ten megabytes of one character are tokenized within a minute") {
  const auto tokenizer = open_sentencepiece(tokenizer_data("bpe.model"));
  for (const std::string unit : {"a", " "}) {
    std::string text;
    while (text.size() < 10'000'000) text += unit;
    const auto start = std::chrono::steady_clock::now();
    const auto ids = ids_of(*tokenizer, text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    CAPTURE(unit, took.count());
    CHECK(took.count() < 60);
    CHECK(tokenizer->decode(ids) == text);
  }
}

TEST_CASE("BOS and EOS are added as the model says, unless the caller says otherwise") {
  const auto model = tokenizer_data("bpe.model");
  const auto tokenizer = open_sentencepiece(model);
  const SpecialTokens& special = tokenizer->special();
  CHECK(special.bos == 1);
  CHECK(special.eos == 2);
  CHECK(special.unk == 0);
  CHECK(special.pad == -1);
  const auto plain = ids_of(*tokenizer, "the fox");
  CHECK(tokenizer->encode("the fox") == joined({{1}, plain}));
  CHECK(tokenizer->encode("") == std::vector<int32_t>{1});
  CHECK(tokenizer->encode("the fox", {.add_eos = true}) == joined({{1}, plain, {2}}));

  const auto neither = open_sentencepiece(model, {.add_bos = false});
  CHECK(neither->encode("the fox") == plain);
  const auto both = open_sentencepiece(model, {.add_eos = true});
  CHECK(both->encode("the fox") == joined({{1}, plain, {2}}));

  Vocabulary without = as_gguf_holds_it(read_sentencepiece(model));
  without.bos = -1;
  CHECK_FALSE(make_sentencepiece(without)->special().add_bos);
  CHECK(make_sentencepiece(without)->encode("the fox") == plain);
}

TEST_CASE("text becomes a control token only when the caller asks for it") {
  const auto tokenizer = open_sentencepiece(tokenizer_data("bpe.model"));
  const int32_t inst = tokenizer->find("[INST]"), end = tokenizer->find("<|end|>");
  const int32_t tool = tokenizer->find("<tool>");
  REQUIRE(inst > 0);
  REQUIRE(tokenizer->is_control(inst));
  for (const std::string text : {"<s>[INST] hi [/INST]</s>", "<|end|>", "<unk>", "a<s>"}) {
    for (const int32_t id : ids_of(*tokenizer, text)) {
      CHECK_FALSE(tokenizer->is_control(id));
      CHECK(id != 0);
    }
    CHECK(tokenizer->decode(ids_of(*tokenizer, text)) == text);
  }
  CHECK(ids_of(*tokenizer, "<s>[INST]<|end|><unk>", true) == std::vector<int32_t>{1, inst, end, 0});
  CHECK(ids_of(*tokenizer, "[INS", true) == ids_of(*tokenizer, "[INS"));
  // User-defined tokens are found in any text, as in the reference.
  const auto ids = ids_of(*tokenizer, "x<tool>");
  CHECK(std::count(ids.begin(), ids.end(), tool) == 1);
}

TEST_CASE("legacy decides whether text after a control token gets a space") {
  const auto model = tokenizer_data("bpe.model");
  const std::string text = "the fox[INST]the fox<tool> the fox[/INST]";
  for (const bool legacy : {true, false}) {
    const auto t = open_sentencepiece(model, {.legacy = legacy});
    const auto inner = [&](std::string_view s) {
      return legacy ? ids_of(*t, s) : continued(*t, s);
    };
    const auto expected = joined({ids_of(*t, "the fox"),
                                  {t->find("[INST]")},
                                  inner("the fox"),
                                  {t->find("<tool>")},
                                  inner(" the fox"),
                                  {t->find("[/INST]")}});
    CHECK(ids_of(*t, text, true) == expected);
    CHECK(ids_of(*t, "<s>the fox", true) == joined({{1}, inner("the fox")}));
  }
  // A text that continues another equals the text of a model without the prefix.
  Vocabulary v = as_gguf_holds_it(read_sentencepiece(model));
  v.add_space_prefix = false;
  const auto bare = make_sentencepiece(v);
  const auto with_prefix = open_sentencepiece(model);
  for (const std::string s : {"the fox", " the", "", "\n", "日本"}) {
    CHECK(continued(*with_prefix, s) == ids_of(*bare, s));
  }
}

TEST_CASE("of the control tokens at the leftmost place, the longest is taken") {
  Vocabulary v = as_gguf_holds_it(read_sentencepiece(tokenizer_data("bpe.model")));
  const int32_t first = static_cast<int32_t>(v.pieces.size());
  for (const char* piece : {"[A", "[A]", "[A][B]", "]["}) {
    v.pieces.push_back(piece);
    v.scores.push_back(0);
    v.types.push_back(static_cast<int32_t>(TokenKind::Control));
  }
  v.add_space_prefix = false;
  const auto t = make_sentencepiece(v);
  CHECK(ids_of(*t, "[A][B]", true) == std::vector<int32_t>{first + 2});
  CHECK(ids_of(*t, "[A][", true) == joined({{first + 1}, ids_of(*t, "[")}));
  CHECK(ids_of(*t, "[A", true) == std::vector<int32_t>{first});
  CHECK(ids_of(*t, "x][A", true) == joined({ids_of(*t, "x"), {first + 3}, ids_of(*t, "A")}));
}

TEST_CASE("user-defined pieces with real spaces, as Gemma's GGUFs have them, are found in a text") {
  const Vocabulary model = as_gguf_holds_it(read_sentencepiece(tokenizer_data("bpe.model")));
  const auto with_runs = [&](const std::string& space) {
    Vocabulary v = model;
    v.add_space_prefix = false;
    for (const std::string& piece : {space + space, space + space + space + space, "\n" + space}) {
      v.pieces.push_back(piece);
      v.scores.push_back(-1000);
      v.types.push_back(static_cast<int32_t>(TokenKind::UserDefined));
    }
    return make_sentencepiece(std::move(v));
  };
  const auto by_spaces = with_runs(" "), by_symbols = with_runs("\xE2\x96\x81");
  const int32_t first = static_cast<int32_t>(model.pieces.size());
  CHECK(ids_of(*by_spaces, "  ") == std::vector<int32_t>{first});
  for (const std::string text : {"a  b", "if x:\n    return  1\n  y", "   ", " \n \n  "}) {
    CAPTURE(text);
    CHECK(ids_of(*by_spaces, text) == ids_of(*by_symbols, text));
    CHECK(by_spaces->decode(ids_of(*by_spaces, text)) == text);
  }
}

TEST_CASE("a special token that strips takes the white space behind it, where it is parsed") {
  Vocabulary v = as_gguf_holds_it(read_sentencepiece(tokenizer_data("bpe.model")));
  v.legacy = false;
  const auto plain = make_sentencepiece(v);
  const int32_t inst = plain->find("[INST]"), end = plain->find("[/INST]");
  v.strips_right = {inst};
  const auto strips = make_sentencepiece(v);
  CHECK(ids_of(*strips, "[INST] \n\u00a0\u3000fox[/INST]\n", true) ==
        joined({{inst}, continued(*plain, "fox"), {end}, continued(*plain, "\n")}));
  CHECK(ids_of(*strips, "[INST] \n ", true) == std::vector<int32_t>{inst});
  CHECK(ids_of(*strips, "[INST]\n") == ids_of(*plain, "[INST]\n"));
}

TEST_CASE("a tokenizer describes its pieces") {
  const auto t = open_sentencepiece(tokenizer_data("bpe.model"));
  CHECK(t->name() == "SentencePiece BPE");
  CHECK(open_sentencepiece(tokenizer_data("unigram.model"))->name() == "SentencePiece unigram");
  CHECK(t->vocab_size() == 560);
  CHECK(t->piece(1) == "<s>");
  CHECK(t->piece_bytes(1).empty());
  const int32_t newline = t->find("<0x0A>");
  CHECK(t->kind(newline) == TokenKind::Byte);
  CHECK(t->piece_bytes(newline) == "\n");
  CHECK(t->piece_bytes(t->find("\xE2\x96\x81the")) == " the");
  CHECK(t->find("no such piece") == -1);
  for (const int32_t outside : {-1, t->vocab_size(), INT32_MAX, INT32_MIN}) {
    CHECK(t->piece(outside).empty());
    CHECK(t->piece_bytes(outside).empty());
    CHECK(t->kind(outside) == TokenKind::Unused);
    CHECK(t->decode(std::vector<int32_t>{outside}).empty());
  }
}
