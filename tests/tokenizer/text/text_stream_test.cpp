#include "tokenizer/text/text_stream.h"

#include <sentencepiece_processor.h>

#include "tests/tokenizer/tokenizer_data.h"
#include "tokenizer/text/utf8.h"

using namespace skald;
using namespace skald::test;

namespace {

std::string streamed(const Tokenizer& t, const std::vector<int32_t>& ids, TextStream::Begin begin) {
  TextStream stream(t, begin);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = stream.feed(id);
    CHECK(utf8_valid(part));
    text += part;
  }
  return text + stream.flush();
}

}  // namespace

TEST_CASE("streaming ids gives the text of decoding them together") {
  std::mt19937 random(4);
  for (const std::string name : {"bpe", "unigram"}) {
    const auto model = tokenizer_data(name + ".model");
    const auto t = open_sentencepiece(model);
    sentencepiece::SentencePieceProcessor library;
    REQUIRE(library.Load(model.string()).ok());
    const int32_t word = t->encode("the", {.add_bos = false}).back();
    const std::string lead = library.DecodeIds(std::vector<int>{word});
    for (int round = 0; round < 5000; ++round) {
      const std::vector<int32_t> ids = random_ids(*t, random);
      CAPTURE(name, ids);
      const std::string text = library.DecodeIds(ids);
      CHECK(t->decode(ids) == text);
      CHECK(streamed(*t, ids, TextStream::Begin::Text) == text);
      // A continuation is the text of both together, less the text of the first.
      std::vector<int32_t> longer = {word};
      longer.insert(longer.end(), ids.begin(), ids.end());
      CHECK(lead + streamed(*t, ids, TextStream::Begin::Continuation) == library.DecodeIds(longer));
    }
  }
}

TEST_CASE("a character appears with its last byte and not before") {
  const auto t = open_sentencepiece(tokenizer_data("bpe.model"));
  TextStream stream(*t);
  const auto feed = [&](const char* piece) { return stream.feed(t->find(piece)); };
  CHECK(feed("<0xF0>") == "");
  CHECK(feed("<0x9F>") == "");
  CHECK(feed("<0x98>") == "");
  CHECK(feed("<0x80>") == "\U0001F600");
  CHECK(feed("<0xE2>") == "");
  CHECK(feed("<0x41>") == "\uFFFDA");
  CHECK(feed("<0xE2>") == "");
  CHECK(feed("<0x96>") == "");
  CHECK(feed("\xE2\x96\x81the") == "\uFFFD\uFFFD the");
  CHECK(feed("<0xED>") == "");
  CHECK(feed("<0xA0>") == "\uFFFD\uFFFD");  // a surrogate is not a character
  CHECK(feed("<0xFF>") == "\uFFFD");
  CHECK(feed("<0xEF>") == "");
  CHECK(feed("<0xBF>") == "");
  CHECK(feed("<0xBD>") == "\uFFFD");  // the model's own U+FFFD, which replaces nothing
  CHECK(feed("<0xC3>") == "");
  CHECK(stream.flush() == "\uFFFD");
  CHECK(stream.flush() == "");
}

TEST_CASE("only a stream that starts a text drops the first space") {
  const auto t = open_sentencepiece(tokenizer_data("bpe.model"));
  const auto ids = t->encode("the fox", {.add_bos = true});
  CHECK(streamed(*t, ids, TextStream::Begin::Text) == "the fox");
  CHECK(streamed(*t, ids, TextStream::Begin::Continuation) == " the fox");
  Vocabulary v = as_gguf_holds_it(read_sentencepiece(tokenizer_data("bpe.model")));
  v.add_space_prefix = false;
  const auto bare = make_sentencepiece(v);
  CHECK(streamed(*bare, ids, TextStream::Begin::Text) == " the fox");
}

TEST_CASE("UTF-8 is distinguished from similar bytes") {
  for (const std::string good : {"a", "\x7F", "é", "\u07FF", "\u0800", "\uD7FF", "\uE000", "\uFFFF",
                                 "\U00010000", "\U0010FFFF"}) {
    CHECK(utf8_length(good) == good.size());
    CHECK(utf8_valid(good + good));
    for (size_t n = 1; n < good.size(); ++n) {
      CHECK(utf8_length(good.substr(0, n)) == 0);
      CHECK(utf8_incomplete(good.substr(0, n)));
    }
  }
  for (const std::string bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xE2\x28\xA1", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xF8\x88\x80\x80\x80", "\xFF"}) {
    CHECK(utf8_length(bad) == 0);
    CHECK_FALSE(utf8_incomplete(bad));
    CHECK_FALSE(utf8_valid(bad));
  }
  CHECK(utf8_valid(std::string("\0", 1)));
  CHECK(utf8_length("") == 0);
}
