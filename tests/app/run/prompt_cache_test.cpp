// skald run --prompt-cache: the cache never changes the text, and a bad cache file is never used.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

const std::string kStory =
    "Once upon a time there was a fox. It lived in the wood with its friends";

struct Cached {
  TempFolder folder;
  std::string path = (folder.path() / "cache").string();

  Outcome run(const std::string& prompt, const Arguments& more = {}) const {
    Arguments all{"run",          "-m", small_gguf(), prompt,   "--temp",         "0",
                  "--ignore-eos", "-n", "12",         "--json", "--prompt-cache", path};
    all.insert(all.end(), more.begin(), more.end());
    return skald(all);
  }
};

// Checks that the text is that of a run without a cache.
Json report(const Outcome& outcome, const std::string& prompt, const Arguments& more = {}) {
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  Arguments plain{"run", "-m", small_gguf(), prompt, "--temp", "0", "--ignore-eos", "-n", "12"};
  plain.insert(plain.end(), more.begin(), more.end());
  const Json json = Json::parse(outcome.out);
  CHECK(json["text"] == skald(plain).out);
  return json;
}

TEST_CASE("a prompt cache changes no text and saves the computing of known tokens") {
  const Cached cached;
  Json first = report(cached.run(kStory), kStory);
  CHECK(first["cached_tokens"] == 0);
  const int64_t tokens = first["prompt_tokens"];
  const std::string file = read_file(cached.path);

  // For the same prompt, all tokens but the last are in the cache, and nothing is written.
  CHECK(report(cached.run(kStory), kStory)["cached_tokens"] == tokens - 1);
  CHECK(read_file(cached.path) == file);
  // A beginning of the prompt is in the cache too, and does not shorten the file.
  const std::string beginning = kStory.substr(0, 33);
  const Json part = report(cached.run(beginning), beginning);
  CHECK(part["cached_tokens"].get<int64_t>() >= part["prompt_tokens"].get<int64_t>() - 2);
  // For a prompt with another end, the common tokens are reused, and the file then holds the new
  // prompt.
  const std::string other = kStory.substr(0, 33) + " And a bear, who was old and kind, came by";
  const Json changed = report(cached.run(other), other);
  CHECK(changed["cached_tokens"] > 5);
  CHECK(changed["cached_tokens"] < changed["prompt_tokens"]);
  const Json again = report(cached.run(other), other);
  CHECK(again["cached_tokens"].get<int64_t>() == again["prompt_tokens"].get<int64_t>() - 1);
}

TEST_CASE("a prompt cache is used only for the same weights at the same precision") {
  const Cached cached;
  report(cached.run(kStory), kStory);
  const std::string says =
      "was made with another model, other settings or another kind of machine; "
      "computing the whole prompt\n";
  Outcome exact = cached.run(kStory, {"--exact"});
  CHECK(report(exact, kStory, {"--exact"})["cached_tokens"] == 0);
  CHECK(has(exact.err, says));
  // The file now belongs to the exact settings.
  exact = cached.run(kStory, {"--exact"});
  CHECK(report(exact, kStory, {"--exact"})["cached_tokens"] > 0);
  CHECK(exact.err == "");
  // A model that differs in one weight.
  std::string bytes = read_file(small_gguf());
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  const std::string model = cached.folder.write("model.gguf", bytes).string();
  const Outcome changed =
      skald({"run", "-m", model, kStory, "-n", "1", "--prompt-cache", cached.path, "--exact"});
  CHECK(changed.code == 0);
  CHECK(has(changed.err, says));
}

TEST_CASE("the prompt cache does not depend on threads and rows") {
  const Cached cached;
  report(cached.run(kStory, {"-t", "2"}), kStory);
  const Json other = report(cached.run(kStory, {"-t", "1", "--rows", "3"}), kStory);
  CHECK(other["cached_tokens"].get<int64_t>() == other["prompt_tokens"].get<int64_t>() - 1);
}

TEST_CASE("a damaged prompt cache is reported and replaced") {
  const Cached cached;
  report(cached.run(kStory), kStory);
  const std::string good = read_file(cached.path);
  std::string page = good;
  page[page.size() / 2] = static_cast<char>(page[page.size() / 2] ^ 4);
  std::string head = good;
  head[60] = static_cast<char>(head[60] ^ 4);
  for (const std::string& bad : {page, head, good.substr(0, good.size() / 2)}) {
    cached.folder.write("cache", bad);
    const Outcome outcome = cached.run(kStory);
    CHECK(report(outcome, kStory)["cached_tokens"] == 0);
    CHECK(has(outcome.err, "computing the whole prompt"));
    CHECK(cached.run(kStory).err == "");
  }
}

TEST_CASE("a foreign file given as prompt cache is an error and stays unchanged") {
  const Cached cached;
  cached.folder.write("cache", "my only copy of something");
  const Outcome outcome = cached.run(kStory);
  CHECK(outcome.code == 1);
  CHECK(outcome.out == "");
  CHECK(has(outcome.err, "is not one of skald's cache files and will not be replaced"));
  CHECK(read_file(cached.path) == "my only copy of something");
}

TEST_CASE("a saved conversation is not overwritten by a prompt cache, but can be read as one") {
  const Cached cached;
  const Outcome chat = skald({"chat", small_gguf(), "--chat-template", "chatml", "-n", "8",
                              "--temp", "0", "--session", cached.path},
                             "hello\n");
  CAPTURE(chat.err);
  REQUIRE(chat.code == 0);
  const std::string saved = read_file(cached.path);
  const Outcome outcome = cached.run(kStory);
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "is a saved conversation of skald chat"));
  CHECK(read_file(cached.path) == saved);
  const Outcome reading = cached.run(kStory, {"--prompt-cache-ro"});
  CHECK(reading.code == 0);
  report(reading, kStory);
  CHECK(read_file(cached.path) == saved);
}

TEST_CASE("an unwritable prompt cache is reported before anything is computed") {
  Cached cached;
  cached.path = (cached.folder.path() / "none" / "cache").string();
  const Outcome outcome = cached.run(kStory);
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "cannot be written: there is no folder"));
}

TEST_CASE("run --prompt-cache-ro reads the file and never writes it") {
  const Cached cached;
  Outcome outcome = cached.run(kStory, {"--prompt-cache-ro"});
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err, "is missing or empty; computing the whole prompt"));
  CHECK(!std::filesystem::exists(cached.path));
  report(cached.run(kStory), kStory);
  const std::string file = read_file(cached.path);
  outcome = cached.run(kStory + " and more", {"--prompt-cache-ro"});
  CHECK(outcome.err == "");
  CHECK(report(outcome, kStory + " and more")["cached_tokens"] > 5);
  CHECK(read_file(cached.path) == file);
}

TEST_CASE("run -n 0 fills a prompt cache, and an empty file counts as a new one") {
  const Cached cached;
  cached.folder.write("cache", "");
  const Outcome filled = cached.run(kStory);
  const Outcome none = skald(
      {"run", "-m", small_gguf(), kStory + ", who sang", "-n", "0", "--prompt-cache", cached.path});
  CHECK(filled.err == "");
  CHECK(none.code == 0);
  CHECK(none.out == "");
  const std::string prompt = kStory + ", who sang";
  const Json json = report(cached.run(prompt), prompt);
  CHECK(json["cached_tokens"].get<int64_t>() == json["prompt_tokens"].get<int64_t>() - 1);
}

TEST_CASE("the prompt cache is written even if the reader of stdout goes away") {
  const Cached cached;
  Invocation invocation{
      {"run", "-m", small_gguf(), kStory, "--ignore-eos", "--prompt-cache", cached.path}, ""};
  invocation.read_at_most = 1;
  CHECK(run_program(invocation).code == 141);
  CHECK(report(cached.run(kStory), kStory)["cached_tokens"] > 5);
}

}  // namespace
}  // namespace skald::test
