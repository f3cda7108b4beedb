#include "tokenizer/sentencepiece/sentencepiece_model.h"

#include <bit>

#include "engine/base/error.h"
#include "tests/tokenizer/tokenizer_data.h"

using namespace skald;
using namespace skald::test;

namespace {

// True when the model is refused with an Error. A model that loads is used.
bool refused(const std::string& bytes) {
  try {
    const auto t = make_sentencepiece(parse_sentencepiece(bytes, "test.model"));
    const std::string text = "The fox <tool> waited\tfor \xEF\xAC\x81 e\u0301 \xE3\x80\x80 12 \xFF";
    const auto ids = t->encode(text);
    t->decode(ids);
    return false;
  } catch (const Error& error) {
    CHECK(error.code() == Exit::Model);
    CHECK(std::string(error.what()).starts_with("test.model: "));
    return true;
  }
}

std::string model_bytes(const std::string& name) { return read_bytes(tokenizer_data(name)); }

// A valid model, for tests that break one rule.
LibraryModel small() {
  LibraryModel model = {{}, false, false, true, false, ""};
  model.pieces = {{"<unk>", 0, TokenKind::Unknown},
                  {"<s>", 0, TokenKind::Control},
                  {"a", -1, TokenKind::Normal},
                  {"ab", -2, TokenKind::Normal}};
  return model;
}

bool refused(const LibraryModel& model) { return refused(serialize(model)); }

// A length-delimited field in protobuf's format.
std::string field(uint32_t number, const std::string& bytes) {
  REQUIRE(bytes.size() < 128);
  std::string out;
  for (uint32_t tag = number << 3 | 2; tag > 0; tag >>= 7) {
    out += static_cast<char>((tag & 0x7F) | (tag > 0x7F ? 0x80 : 0));
  }
  return out + static_cast<char>(bytes.size()) + bytes;
}

std::string charsmap_of(const std::vector<uint32_t>& units, const std::string& texts) {
  std::string out;
  const uint32_t size = static_cast<uint32_t>(units.size() * 4);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(size >> shift);
  for (const uint32_t unit : units) {
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(unit >> shift);
  }
  return out + texts;
}

}  // namespace

TEST_CASE("a SentencePiece model that is cut off anywhere is refused, with few exceptions") {
  for (const std::string name : {"bpe.model", "unigram.model"}) {
    const std::string bytes = model_bytes(name);
    int works = 0;
    for (size_t size = 0; size < bytes.size(); ++size) {
      if (!refused(bytes.substr(0, size))) ++works;
    }
    // A cut between two pieces before the header leaves a valid protobuf; other cuts are detected.
    CHECK(works < 600);
  }
}

TEST_CASE("a SentencePiece model with a flipped bit is refused or works") {
  for (const std::string name : {"bpe.model", "unigram.model"}) {
    const std::string good = model_bytes(name);
    REQUIRE_FALSE(refused(good));
    // Flips bits in the first pieces and in the header (trainer and normalizer), which follows the
    // last piece.
    const size_t header = name == "bpe.model" ? 8353 : 2478;
    REQUIRE(good[header] == '\x12');
    std::vector<size_t> places;
    for (size_t i = 0; i < good.size(); ++i) {
      if (i < 100 || i >= header) places.push_back(i);
    }
    int works = 0;
    for (const size_t place : places) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bytes = good;
        bytes[place] = static_cast<char>(bytes[place] ^ 1 << bit);
        if (!refused(bytes)) ++works;
      }
    }
    CHECK(works > 0);  // many header fields only record how the model was trained
  }
}

TEST_CASE("random bytes are refused") {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 3 == 0 ? 0x0A : random());
    CHECK(refused(bytes));
  }
}

TEST_CASE("a model that breaks a rule of the format is refused") {
  REQUIRE_FALSE(refused(small()));
  const auto broken = [](auto change) {
    LibraryModel model = small();
    change(model);
    return refused(model);
  };
  CHECK(broken([](LibraryModel& m) { m.pieces.clear(); }));
  CHECK(broken([](LibraryModel& m) { m.pieces[2].name = ""; }));
  CHECK(broken([](LibraryModel& m) { m.pieces[3].name = "a"; }));
  CHECK(broken([](LibraryModel& m) { m.pieces[0].kind = TokenKind::Normal; }));
  CHECK(broken([](LibraryModel& m) { m.pieces[2].kind = TokenKind::Unknown; }));
  CHECK(broken([](LibraryModel& m) { m.pieces[2].kind = static_cast<TokenKind>(0); }));
  CHECK(broken([](LibraryModel& m) { m.pieces[2].kind = static_cast<TokenKind>(7); }));
  CHECK(broken([](LibraryModel& m) { m.pieces[2].score = std::bit_cast<float>(0x7FC00000u); }));
  CHECK(broken([](LibraryModel& m) { m.pieces[2].score = std::bit_cast<float>(0xFF800000u); }));
  CHECK(broken([](LibraryModel& m) { m.byte_fallback = true; }));
  CHECK(broken([](LibraryModel& m) { m.pieces.push_back({"<0x41>", 0, TokenKind::Byte}); }));
  CHECK(broken([](LibraryModel& m) { m.charsmap = "x"; }));

  const std::string good = serialize(small());
  CHECK_FALSE(refused(good + field(4, "self test data, which is not used")));
  CHECK_FALSE(refused(good + field(77, "a later version's field")));
  CHECK(refused(good + field(2, "\x18\x03")));                  // model type: word
  CHECK(refused(good + field(2, "\xC0\x01\x01")));              // spaces at the end of words
  CHECK(refused(good + field(3, std::string("\x28\x00", 2))));  // spaces not escaped
  CHECK(refused(good + field(5, field(2, "rules"))));           // denormalization
  CHECK(refused(good + field(1, "\x12\x01\x61")));              // a score of the wrong wire type
  CHECK(refused(good + std::string("\x0B", 1)));                // a group
  CHECK(refused(good + std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11)));
  CHECK(refused(good + std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12)));
  CHECK(refused(good + std::string("\x02\x00", 2)));  // field 0
}

TEST_CASE("a missing file, a folder and a device are refused") {
  for (const auto& path :
       {data_dir() / "no-such.model", data_dir(), std::filesystem::path("/dev/zero")}) {
    try {
      open_sentencepiece(path);
      FAIL("opened " << path);
    } catch (const Error& error) {
      CHECK(error.code() == Exit::Model);
    }
  }
}

TEST_CASE("normalization rules that point outside their table are refused") {
  // Unit 0 is the root; its children lie around unit 256 (offset 1 << 8). The child for 'a' is unit
  // 256 ^ 'a', a leaf whose value lies at the unit's own base.
  std::vector<uint32_t> units(768, 0x80000000u);
  const uint32_t a = 256 ^ 'a';
  units[0] = 256u << 10;
  units[a] = (a ^ 512u) << 10 | 1u << 8 | 'a';
  units[512] = 0x80000000u | 2;
  const std::string texts("xy\0", 3);
  const auto fault = [&](auto change) {
    std::vector<uint32_t> changed = units;
    change(changed);
    return charsmap_fault(charsmap_of(changed, texts));
  };
  CHECK(fault([](auto&) {}).empty());
  CHECK(charsmap_fault("").empty());
  CHECK_FALSE(charsmap_fault("abc").empty());
  CHECK_FALSE(charsmap_fault(std::string(4, '\0')).empty());
  CHECK_FALSE(charsmap_fault(charsmap_of({}, texts)).empty());
  CHECK_FALSE(charsmap_fault(charsmap_of(units, "")).empty());
  CHECK_FALSE(charsmap_fault(charsmap_of(units, "xyz")).empty());
  CHECK_FALSE(charsmap_fault(charsmap_of(units, texts).substr(0, 900)).empty());
  CHECK_FALSE(charsmap_fault("\xFF\xFF\xFF\xFF" + charsmap_of(units, texts)).empty());
  CHECK(fault([](auto& u) { u[512] = 0x80000000u | 3; }).find("replacements") != std::string::npos);
  CHECK(fault([](auto& u) { u[0] = 768u << 10; }).find("outside") != std::string::npos);
  CHECK(fault([](auto& u) { u[0] = 0xFFFFFE00u; }).find("outside") != std::string::npos);
  CHECK(fault([&](auto& u) { u[a] = (a ^ 4096u) << 10 | 'a'; }).find("outside") !=
        std::string::npos);
  // 'a' leads to its own children again, so that a run of 'a' would never end.
  CHECK(fault([&](auto& u) { u[a] = (a ^ 256u) << 10 | 'a'; }).find("loop") != std::string::npos);
}

TEST_CASE("more rules with a common beginning than the library has room for are refused") {
  const auto chain = [](uint32_t length) {
    // The children of unit k lie around 256 * (k + 1). Each 'a' is a rule and has children.
    std::vector<uint32_t> units(256 * (length + 2), 0x80000000u);
    units[0] = 256u << 10;
    for (uint32_t k = 1; k <= length; ++k) {
      const uint32_t unit = (256 * k) ^ 'a', base = 256 * (k + 1);
      units[unit] = (unit ^ base) << 10 | 1u << 8 | 'a';
      units[base] = 0x80000000u;
    }
    return charsmap_fault(charsmap_of(units, std::string("x\0", 2)));
  };
  CHECK(chain(32).empty());
  CHECK(chain(33) == "too many rules share a beginning");
}
