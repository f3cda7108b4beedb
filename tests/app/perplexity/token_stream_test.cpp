#include "app/perplexity/token_stream.h"

#include "app/model/open.h"
#include "app/perplexity/text_cut.h"
#include "engine/base/rng.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/sha256.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

// Words, numbers, signs, runs of blanks and letters, and characters of one to four bytes.
std::string odd_text(size_t bytes, uint64_t seed) {
  const std::string_view parts[] = {
      "the ",   "old ",  "kings", "\n",       "\n\n", " ",
      "   ",    "1234",  "5",     ", ",       ".\n",  "it's ",
      "naïve ", "\t",    "你好",  "。",       "мир ", "👩‍👩‍👧 ",
      "--",     "==== ", "(x) ",  "Ångström", "a",    "don't\n",
      "\r\n",   "<s>",   "</s> "};
  std::string text;
  for (int64_t i = 0; text.size() < bytes; ++i) {
    text += parts[static_cast<size_t>(uniform(seed, 3, i) * std::size(parts))];
  }
  return text;
}

std::vector<int32_t> all_ids(const TokenStream& stream) {
  std::vector<int32_t> ids(static_cast<size_t>(stream.count()));
  stream.read(0, ids);
  return ids;
}

const fs::path kTokenizers[] = {data_dir() / "tokenizer" / "unigram.model",
                                data_dir() / "tokenizer" / "bpe.model",
                                data_dir() / "tokenizer" / "byte.tokenizer.json"};

TEST_CASE("a text tokenized in parts has the ids of the whole text") {
  TempFolder folder;
  int cut_tokenizers = 0;
  for (const fs::path& path : kTokenizers) {
    const auto tokenizer = open_tokenizer(path);
    for (const uint64_t seed : {1, 2, 3}) {
      CAPTURE(path, seed);
      const std::string text = odd_text(60000, seed);
      const TextFile file(folder.write("text.txt", text).string());
      const std::vector<int32_t> expected = tokenizer->encode(text);
      const TokenStream whole(file, *tokenizer, {});
      CHECK(whole.parts() == 1);
      CHECK(all_ids(whole) == expected);
      CHECK(whole.sha256() == sha256_hex(text));
      try {
        const TokenStream cut(file, *tokenizer, {.whole_bytes = 1000, .part_bytes = 3000});
        CHECK(cut.parts() > 10);
        CHECK(all_ids(cut) == expected);
        CHECK(cut.sha256() == whole.sha256());
        // Reads from several places in any order.
        for (const int64_t first : {cut.count() - 40, int64_t{0}, cut.count() / 2}) {
          std::vector<int32_t> some(40);
          cut.read(first, some);
          CHECK(std::equal(some.begin(), some.end(), expected.begin() + first));
        }
        ++cut_tokenizers;
      } catch (const Error& error) {
        CHECK(has(error.what(), "split the file"));
      }
    }
  }
  CHECK(cut_tokenizers >= 6);
}

TEST_CASE("a published tokenizer gives a real text in parts the ids of the whole text") {
  if (!have_shared("text/shakespeare.txt") || !have_shared("tokenizers")) return;
  const TextFile file((shared_dir() / "text" / "shakespeare.txt").string());
  const std::string text = file.read(0, file.size());
  for (const char* name : {"llama2-tokenizer.model", "llama3-tokenizer.json"}) {
    CAPTURE(name);
    const auto tokenizer = open_tokenizer(shared_dir() / "tokenizers" / name);
    const TokenStream cut(file, *tokenizer, {.whole_bytes = 1000, .part_bytes = 20000});
    CHECK(cut.parts() > 40);
    CHECK(all_ids(cut) == tokenizer->encode(text));
  }
}

TEST_CASE("a protocol may drop one newline at the end") {
  TempFolder folder;
  const auto tokenizer = open_tokenizer(kTokenizers[1]);
  const TextFile file(folder.write("text.txt", "one two\n\n").string());
  CHECK(all_ids(TokenStream(file, *tokenizer, {})) == tokenizer->encode("one two\n\n"));
  const TokenStream dropped(file, *tokenizer, {.drop_last_newline = true});
  CHECK(all_ids(dropped) == tokenizer->encode("one two\n"));
  CHECK(dropped.sha256() == sha256_hex("one two\n\n"));
}

TEST_CASE("a file that is not text is refused with the place of the bad byte") {
  TempFolder folder;
  const auto tokenizer = open_tokenizer(kTokenizers[1]);
  const auto message = [&](const std::string& bytes) {
    const std::string path = folder.write("text.txt", bytes).string();
    return error_text([&] { TokenStream(TextFile(path), *tokenizer, {}); }, Exit::Usage);
  };
  CHECK(has(message(""), "text.txt: is empty"));
  CHECK(has(message(std::string("abc\0def", 7)), "byte 3 is NUL"));
  CHECK(has(message("fünf \xff zehn"), "the bytes from 6 on are no UTF-8"));
  CHECK(has(message("cut short: \xe2\x82"), "the bytes from 11 on are no UTF-8"));
  CHECK(has(error_text([&] { TextFile(folder.path().string()); }, Exit::Usage), "is a folder"));
  CHECK(has(error_text([&] { TextFile("/nowhere/at/all"); }, Exit::Usage), "cannot be opened"));
}

TEST_CASE("a file that becomes shorter while it is read is an Error") {
  TempFolder folder;
  const fs::path path = folder.write("text.txt", odd_text(20000, 5));
  const TextFile file(path.string());
  fs::resize_file(path, 100);
  CHECK(has(error_text([&] { file.read(0, 20000); }, Exit::Failed), "ends at 100 now"));
}

}  // namespace
}  // namespace skald::test
