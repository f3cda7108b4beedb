#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/error.h"
#include "models/text/open_tokenizer.h"
#include "tests/tokenizer/tokenizer_data.h"
#include "tokenizer/sentencepiece/library_vocabulary.h"

using namespace skald;
using namespace skald::test;

namespace {

Vocabulary small_vocabulary() {
  return as_gguf_holds_it(read_sentencepiece(tokenizer_data("bpe.model")));
}

void add(Vocabulary& v, const std::string& piece, TokenKind kind) {
  v.pieces.push_back(piece);
  v.scores.push_back(-1000);
  v.types.push_back(static_cast<int32_t>(kind));
}

// The message of the Error(Exit::Model) of make_sentencepiece; "" without an error.
std::string refusal(const Vocabulary& v) {
  try {
    make_sentencepiece(v);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::Model);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a GGUF's vocabulary gives the ids of the tokenizer.model that it was made from") {
  if (!have_shared("goldens/gguf-stories") || !have_shared("goldens/stories260K")) return;
  const auto folder = shared_dir() / "goldens";
  const auto from_model = open_sentencepiece(folder / "stories260K" / "tokenizer.model");
  for (const std::string name : {"stories260K.f32.gguf", "stories260K.f16.gguf"}) {
    const auto from_gguf = open_tokenizer(folder / "gguf-stories" / name);
    REQUIRE(from_gguf->vocab_size() == 512);
    CHECK(from_gguf->special().bos == from_model->special().bos);
    const auto golden = nlohmann::json::parse(read_bytes(tokenizer_data("bpe.golden.json")));
    for (const auto& item : golden["cases"]) {
      const std::string text = item["text"];
      CAPTURE(text);
      CHECK(from_gguf->encode(text) == from_model->encode(text));
      CHECK(from_gguf->decode(from_gguf->encode(text)) ==
            from_model->decode(from_model->encode(text)));
    }
  }
}

TEST_CASE("a vocabulary with repeated, empty or broken pieces loads and keeps its ids") {
  Vocabulary v = small_vocabulary();
  const auto before = make_sentencepiece(v);
  const int32_t first = static_cast<int32_t>(v.pieces.size());
  for (const TokenKind kind : {TokenKind::Normal, TokenKind::Control, TokenKind::UserDefined,
                               TokenKind::Unused, TokenKind::Unknown}) {
    for (const std::string& piece :
         {std::string("\xE2\x96\x81the"), std::string("<s>"), std::string(), std::string(),
          std::string("\xFF"), std::string("\xFF") + std::to_string(first), std::string("<0x41>"),
          std::string("q\0q", 3), std::string("\xE2\x96"), std::string(4096, 'z')}) {
      add(v, piece, kind);
    }
  }
  add(v, "<0x41>", TokenKind::Byte);
  for (const bool unigram : {false, true}) {
    v.unigram = unigram;
    const auto t = make_sentencepiece(v);
    CHECK(t->vocab_size() == static_cast<int32_t>(v.pieces.size()));
    CHECK(t->find("<s>") == 1);
    for (int32_t id = 0; id < t->vocab_size(); ++id) CHECK(t->piece(id) == v.pieces[id]);
    if (unigram) continue;
    for (const std::string text : {"the fox waited", "A <0x41> <s>", "\xFF and \xE2\x96", "zzz"}) {
      CHECK(t->encode(text) == before->encode(text));
    }
    CHECK(t->decode(std::vector<int32_t>{first}) == "the");
    CHECK(t->decode(std::vector<int32_t>{first + 4}) == "\uFFFD");
    CHECK(t->decode(std::vector<int32_t>{t->vocab_size() - 1}) == "A");
  }
}

TEST_CASE("text that spells a control token does not become one") {
  Vocabulary v = small_vocabulary();
  for (const std::string piece : {"x", "\xE2\x96\x81", "the"}) {
    for (size_t id = 0; id < v.pieces.size(); ++id) {
      if (v.pieces[id] == piece) v.types[id] = static_cast<int32_t>(TokenKind::Control);
    }
  }
  const auto t = make_sentencepiece(v);
  for (const int32_t id : t->encode("x the x, the fox  xx", {.add_bos = false})) {
    CHECK_FALSE(t->is_control(id));
  }
}

TEST_CASE("types and scores may be missing") {
  Vocabulary v = small_vocabulary();
  v.types.clear();
  const auto full = make_sentencepiece(small_vocabulary());
  const auto t = make_sentencepiece(v);
  CHECK(t->is_control(1));
  CHECK(t->kind(0) == TokenKind::Unknown);
  CHECK(t->kind(t->find("<0x0A>")) == TokenKind::Byte);
  CHECK(t->encode("The fox\n waited") == full->encode("The fox\n waited"));
  v = small_vocabulary();
  v.scores.clear();  // without scores, pieces are ranked by their order, as in a trained BPE
  CHECK(make_sentencepiece(v)->encode("The fox\n waited") == full->encode("The fox\n waited"));
}

TEST_CASE("without an unknown token all 256 bytes are needed") {
  Vocabulary v = small_vocabulary();
  v.unk = -1;
  v.types[0] = static_cast<int32_t>(TokenKind::Control);
  const auto t = make_sentencepiece(v);
  CHECK(t->special().unk == -1);
  CHECK(t->decode(t->encode("日本 zebra \u2603")) == "日本 zebra \u2603");
  CHECK(t->vocab_size() == static_cast<int32_t>(v.pieces.size()));

  const int32_t newline = t->find("<0x0A>");
  v.types[newline] = static_cast<int32_t>(TokenKind::Normal);
  CHECK(refusal(v).find("neither an unknown token") != std::string::npos);
  v.types[0] = static_cast<int32_t>(TokenKind::Unknown);
  const auto partial = make_sentencepiece(v);  // a character without bytes is then unknown
  CHECK(partial->encode("\n", {.add_bos = false}).back() == 0);
}

TEST_CASE("an impossible vocabulary is refused in one line") {
  const auto broken = [](auto change) {
    Vocabulary v = small_vocabulary();
    change(v);
    const std::string message = refusal(v);
    CHECK(message.starts_with("test.gguf: "));
    CHECK(message.find('\n') == std::string::npos);
    return message;
  };
  for (const char* name : {"<0x-1>", "<0x+1>", "<0xG0>", "<0x 1>", "<0x1>", "<0x001>", "<0xff>", "",
                           "\x1b[31m", "<0x41> "}) {
    CAPTURE(name);
    CHECK(broken([&](Vocabulary& v) { v.pieces[20] = name; }).find("marked as a byte") !=
          std::string::npos);
  }
  broken([](Vocabulary& v) { v.pieces.clear(); });
  broken([](Vocabulary& v) { v.scores.pop_back(); });
  broken([](Vocabulary& v) { v.types.push_back(1); });
  broken([](Vocabulary& v) { v.types[30] = 7; });
  broken([](Vocabulary& v) { v.types[30] = -1; });
  broken([](Vocabulary& v) { v.scores[300] = std::nanf(""); });
  broken([](Vocabulary& v) { v.scores[300] = std::numeric_limits<float>::infinity(); });
  broken([](Vocabulary& v) { v.pieces[300] = std::string(4097, 'x'); });
  for (const int32_t id : {-2, INT32_MIN, 560, INT32_MAX}) {
    broken([&](Vocabulary& v) { v.bos = id; });
    broken([&](Vocabulary& v) { v.eos = id; });
    broken([&](Vocabulary& v) { v.unk = id; });
    broken([&](Vocabulary& v) { v.pad = id; });
  }
  broken([](Vocabulary& v) {
    for (int n = 1; n < 80; ++n) add(v, std::string(n, 'w'), TokenKind::UserDefined);
  });
}

TEST_CASE("a piece made of the longest unused pieces does not exhaust the stack") {
  Vocabulary v = small_vocabulary();
  std::string piece = "zq";
  while (piece.size() < 4096) {
    add(v, piece, TokenKind::Unused);
    v.scores.back() = 1.0f + static_cast<float>(piece.size());
    piece += "zq"[piece.size() % 2];
  }
  const auto t = make_sentencepiece(v);
  CHECK(t->decode(t->encode(piece)) == piece);
}
