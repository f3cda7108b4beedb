#include "app/generate/cache_file.h"

#include <sys/stat.h>

#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/family_golden.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

std::unique_ptr<Executor> small_executor(bool exact = false, uint64_t seed = 1) {
  RunOptions options;
  options.threads = 1;
  options.context = 256;
  options.exact = exact;
  return cpu::make_executor(random_llama({.seed = seed, .layers = 1, .head_dim = 32}), options);
}

Tokens generate(Session& session, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(session.next().token);
  return tokens;
}

struct Saved {
  TempFolder folder;
  std::filesystem::path path = folder.path() / "cache";
  std::unique_ptr<Executor> executor = small_executor();
  Tokens prompt = random_tokens(100, 3);
  Sha256::Digest key = cache_key("model", *executor);
  Tokens expected;

  Saved() {
    Session session(*executor, {});
    session.feed(prompt);
    expected = generate(session, 10);
    write_cache_file(path, session, 100, *executor, {key, "a note"});
  }

  Tokens tokens_after(CacheFile& file, int64_t length) const {
    const auto other = small_executor();
    Session session(*other, {});
    if (!file.restore(session, length, *other)) return {};
    session.feed(std::span(prompt).subspan(static_cast<size_t>(length)));
    return generate(session, 10);
  }
};

TEST_CASE("a session restores all tokens of a cache file, or a beginning of them") {
  const Saved saved;
  auto file = CacheFile::open(saved.path);
  REQUIRE(file);
  CHECK(file->problem() == "");
  CHECK(file->key() == saved.key);
  CHECK(file->tokens() == saved.prompt);
  CHECK(file->note() == "a note");
  for (const int64_t length : {99, 64, 63, 1, 0, 70}) {
    CHECK(saved.tokens_after(*file, length) == saved.expected);
  }
}

TEST_CASE(
    "a cache file is readable by its user alone and replaces the earlier file, also through a "
    "link") {
  const Saved saved;
  struct stat status = {};
  ::stat(saved.path.c_str(), &status);
  CHECK((status.st_mode & 0777) == 0600);
  const auto link = saved.folder.path() / "link";
  std::filesystem::create_symlink("cache", link);
  Session session(*saved.executor, {});
  session.feed(std::span(saved.prompt).first(10));
  session.next();
  write_cache_file(link, session, 10, *saved.executor, {saved.key, ""});
  CHECK(std::filesystem::is_symlink(link));
  CHECK(CacheFile::open(saved.path)->tokens().size() == 10);
  CHECK(std::distance(std::filesystem::directory_iterator(saved.folder.path()), {}) == 2);
}

TEST_CASE("the key differs between models and between precisions") {
  const auto fast = small_executor(), exact = small_executor(true);
  CHECK(cache_key("a", *fast) == cache_key("a", *small_executor()));
  CHECK(cache_key("a", *fast) != cache_key("b", *fast));
  CHECK(cache_key("a", *fast) != cache_key("a", *exact));
}

TEST_CASE("a missing cache file equals an empty one, and a foreign file is refused") {
  TempFolder folder;
  CHECK(!CacheFile::open(folder.path() / "none"));
  CHECK(!CacheFile::open(folder.write("empty", "")));
  for (const char* text : {"x", "GGUF", "a text that is much longer than the magic", "skaldk"}) {
    const auto path = folder.write("foreign", text);
    CHECK(has(error_text([&] { CacheFile::open(path); }, Exit::Failed), "not one of skald's"));
  }
  CHECK(has(error_text([&] { CacheFile::open(folder.path()); }, Exit::Failed), "no regular file"));
}

TEST_CASE("a cache file with any byte changed or missing is never used") {
  const Saved saved;
  const std::string good = read_file(saved.path);
  const auto used = [&](const std::string& bytes) {
    const auto path = saved.folder.write("broken", bytes);
    try {
      auto file = CacheFile::open(path);
      return file && file->problem().empty() && !saved.tokens_after(*file, 99).empty();
    } catch (const Error& error) {
      CHECK(error.code() == Exit::Failed);
      return false;
    }
  };
  CHECK(used(good));
  for (size_t at = 0; at < good.size(); at += at < 600 ? 1 : 1009) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    CAPTURE(at);
    CHECK(!used(bad));
    CHECK(!used(good.substr(0, at)));
  }
  CHECK(!used(good.substr(0, good.size() - 1)));
}

TEST_CASE("absurd sizes in a cache file are reported as damage; no memory is allocated for them") {
  const Saved saved;
  std::string bytes = read_file(saved.path);
  for (const size_t at : {8, 48, 56, 64}) {
    std::string bad = bytes;
    bad.replace(at, 8, std::string(8, '\x7f'));
    const auto file = CacheFile::open(saved.folder.write("broken", bad));
    CHECK(file->problem() == "is damaged");
    CHECK(file->tokens().empty());
  }
  bytes[7] = '3';
  CHECK(CacheFile::open(saved.folder.write("broken", bytes))->problem() ==
        "is of another version of skald");
}

TEST_CASE(
    "the key differs between contexts where the context's length decides how positions rotate") {
  TempFolder temp;
  const auto key = [&](const char* name, int64_t context) {
    RunOptions options;
    options.context = context;
    const Model model = open_model(write_folder(temp, name)).model;
    return cache_key("a", *cpu::make_executor(model, options));
  };
  CHECK(key("longrope", 32) == key("longrope", 16));
  CHECK(key("longrope", 64) == key("longrope", 128));
  CHECK(key("longrope", 32) != key("longrope", 64));
  CHECK(key("dynamic", 64) != key("dynamic", 65));
  CHECK(key("yarn", 32) == key("yarn", 128));
}

}  // namespace
}  // namespace skald::test
