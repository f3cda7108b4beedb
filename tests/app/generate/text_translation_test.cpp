// Texts that go from one vocabulary to another and back.
#include "app/generate/text_translation.h"

#include <algorithm>
#include <string>

#include "models/text/open_tokenizer.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"
#include "tokenizer/text/utf8.h"

namespace skald::test {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> demo() {  // SentencePiece, with a space before a text
  return open_tokenizer(source_dir() / "models" / "demo" / "tokenizer.model");
}

std::unique_ptr<Tokenizer> bpe() {  // byte-level
  return open_tokenizer(data_dir() / "tokenizer" / "byte.tokenizer.json");
}

std::string bytes_of(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.piece_bytes(id);
  return text;
}

const std::string kStory =
    "Once upon a time there was a boy called Colin. He liked the sea, and the wind.\n\nEvery day "
    "he went down to the water and looked for shells \xE2\x80\x94 \xC3\xA4 \xE6\xB0\xB4.\n";

std::string long_story() {
  std::string text;
  for (int i = 0; i < 8; ++i) text += kStory;
  return text;
}

// The translation of each beginning of a text is the beginning's text, whatever was translated
// before. Where a character is not whole, there is none.
void check_grows(const Tokenizer& from, const Tokenizer& to, TextTranslation& translation,
                 const Ids& ids) {
  for (size_t length = 1; length <= ids.size(); ++length) {
    const auto part = std::span(ids).first(length);
    const Ids translated = translation.to_draft(part);
    std::string text = bytes_of(from, part), back = bytes_of(to, translated);
    if (from.leading_space() != LeadingSpace::Keep && text.starts_with(' ')) text.erase(0, 1);
    if (translated.empty()) {
      CHECK((text.empty() || !utf8_valid(text)));
      continue;
    }
    if (to.leading_space() != LeadingSpace::Keep && back.starts_with(' ')) back.erase(0, 1);
    REQUIRE(back == text);
  }
}

TEST_CASE("a text that grows by tokens has the same text in the other vocabulary") {
  for (const bool to_bpe : {true, false}) {
    const auto from = to_bpe ? demo() : bpe(), to = to_bpe ? bpe() : demo();
    TextTranslation translation(*from, to_bpe ? bpe() : demo());
    const Ids ids = from->encode(long_story());
    check_grows(*from, *to, translation, ids);
    CHECK(translation.kept() > ids.size() - 150);  // only the end is tokenized anew
    CHECK(translation.kept() < ids.size() - 8);
    // Taken back behind the cut, and before it.
    check_grows(*from, *to, translation, {ids.begin(), ids.end() - 20});
    const Ids other = from->encode("Another story. " + long_story());
    check_grows(*from, *to, translation, other);
  }
}

TEST_CASE("a short text has the tokens that the other tokenizer gives it") {
  const auto from = demo(), to = bpe();
  TextTranslation there(*from, bpe()), back(*to, demo());
  CHECK(there.to_draft(from->encode(kStory)) == to->encode(kStory));
  CHECK(back.to_draft(to->encode(kStory)) == from->encode(kStory));
}

TEST_CASE("guesses come back as whole tokens of the text") {
  const auto text = demo(), draft = bpe();
  TextTranslation translation(*text, bpe());
  EncodeOptions middle;
  middle.add_bos = middle.add_eos = middle.starts_text = false;
  const Ids guesses = draft->encode(" the sea and the wind", middle);
  CHECK(translation.from_draft(guesses) == text->encode(" the sea and the wind", middle));
  CHECK(translation.from_draft({}).empty());
  // The translation leaves out a character that is not whole.
  const Ids umlaut = draft->encode(" the sea \xE6\xB0\xB4", middle);
  REQUIRE(!utf8_valid(bytes_of(*draft, std::span(umlaut).first(umlaut.size() - 1))));
  CHECK(translation.from_draft(std::span(umlaut).first(umlaut.size() - 1)) ==
        text->encode(" the sea ", middle));
}

TEST_CASE("control tokens become those of the same role or name, or nothing") {
  const auto text = demo(), draft = bpe();
  TextTranslation translation(*text, bpe());
  const Ids words = text->encode("the sea", {.add_bos = false, .add_eos = false});
  Ids ids = {text->special().bos};
  ids.insert(ids.end(), words.begin(), words.end());
  ids.push_back(text->special().eos);
  const Ids translated = translation.to_draft(ids);
  CHECK(bytes_of(*draft, translated) == "the sea");
  const int32_t bos = draft->special().bos, eos = draft->special().eos;
  if (bos >= 0) {
    CHECK(translated.front() == bos);
    CHECK(std::count(translated.begin(), translated.end(), bos) == 1);
  }
  if (eos >= 0) {
    CHECK(translated.back() == eos);
    const Ids guesses = {eos};
    CHECK(translation.from_draft(guesses) == Ids{text->special().eos});
  }
}

TEST_CASE("vocabularies are the same if the tokens that both have are") {
  const TempFolder temp;
  const auto bytes = [&](const std::string& name, const std::string& piece, bool control = false) {
    return open_tokenizer(
        temp.write(name + ".gguf", flat_gguf({.extra_piece = piece, .extra_is_control = control})));
  };
  const auto x = bytes("x", "x");
  CHECK(same_tokens(*x, *bytes("same", "x")));
  CHECK_FALSE(same_tokens(*x, *bytes("other", "y")));
  CHECK_FALSE(same_tokens(*x, *bytes("control", "x", true)));
  CHECK(same_tokens(*demo(), *demo()));
  CHECK_FALSE(same_tokens(*demo(), *bpe()));
}

}  // namespace
}  // namespace skald::test
