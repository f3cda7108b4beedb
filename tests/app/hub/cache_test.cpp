#include "app/hub/cache.h"

#include "app/hub/cached_models.h"
#include "app/hub/file_lock.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

// A cache with two revisions of a repository of GGUFs and a folder of safetensors.
struct Cache {
  TempFolder folder;
  fs::path root = folder.path() / "hub";
  CachedRepository tiny{root, "acme/tiny-GGUF"}, big{root, "acme/big"};

  Cache() {
    tiny.make_folders();
    put(tiny, "old111111", "x-Q8_0.gguf", "aaaa", "eight old");
    put(tiny, "new222222", "x-Q8_0.gguf", "bbbb", "eight");
    put(tiny, "new222222", "x-Q4_0.gguf", "cccc", "four");
    put(tiny, "old111111", "x-Q4_0.gguf", "cccc", "four");
    tiny.write_ref("main", "new222222");
    tiny.write_ref("v1", "old111111");
    put(big, "333", "config.json", "dddd", "{}");
    put(big, "333", "model.safetensors.index.json", "eeee",
        R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
                           "b": "model-00002-of-00002.safetensors"}})");
    put(big, "333", "model-00001-of-00002.safetensors", "ffff", "1");
    put(big, "333", "model-00002-of-00002.safetensors", "gggg", "2");
  }

  static void put(const CachedRepository& repository, const std::string& commit,
                  const std::string& file, const std::string& etag, const std::string& content) {
    put_file(repository.blob(etag), content);
    repository.link(commit, file, etag);
  }

  std::string find(const std::string& name) const {
    const auto found = find_in_cache(root, name);
    return found ? found->lexically_relative(root).generic_string() : "";
  }
};

TEST_CASE("links are relative and lead to the blob") {
  const Cache cache;
  const fs::path link = cache.tiny.snapshot("new222222") / "x-Q8_0.gguf";
  CHECK(fs::read_symlink(link) == "../../blobs/bbbb");
  CHECK(read_file(link) == "eight");
  cache.tiny.link("new222222", "sub/y.gguf", "aaaa");
  CHECK(fs::read_symlink(cache.tiny.snapshot("new222222") / "sub/y.gguf") == "../../../blobs/aaaa");
  cache.tiny.link("new222222", "x-Q8_0.gguf", "aaaa");  // replaces the link
  CHECK(read_file(link) == "eight old");
  CHECK(read_file(cache.tiny.ref("main")) == "new222222");
}

TEST_CASE("a model is found by name, type, revision and file") {
  const Cache cache;
  const std::string tiny = "models--acme--tiny-GGUF/snapshots/";
  CHECK(cache.find("acme/tiny-GGUF:q8_0") == tiny + "new222222/x-Q8_0.gguf");
  CHECK(cache.find("tiny-GGUF:Q4_0") == tiny + "new222222/x-Q4_0.gguf");
  CHECK(cache.find("acme/tiny-GGUF") == tiny + "new222222/x-Q4_0.gguf");
  CHECK(cache.find("ACME/tiny-gguf") == tiny + "new222222/x-Q4_0.gguf");
  CHECK(cache.find("acme/tiny-GGUF@v1:Q8_0") == tiny + "old111111/x-Q8_0.gguf");
  CHECK(cache.find("acme/tiny-GGUF@old1111:Q8_0") == tiny + "old111111/x-Q8_0.gguf");
  CHECK(cache.find("acme/tiny-GGUF/x-Q8_0.gguf") == tiny + "new222222/x-Q8_0.gguf");
  CHECK(cache.find("acme/tiny-GGUF:Q5_0") == "");
  CHECK(cache.find("acme/tiny-GGUF@v2") == "");
  CHECK(cache.find("acme/big") == "models--acme--big/snapshots/333");
  CHECK(cache.find("acme/big:Q8_0") == "");
}

TEST_CASE("a short name finds what it stands for") {
  const Cache cache;
  CHECK(cache.find("llama3.2:1b") == "");
  const CachedRepository llama(cache.root, "bartowski/Llama-3.2-1B-Instruct-GGUF");
  Cache::put(llama, "444", "Llama-3.2-1B-Instruct-Q4_K_M.gguf", "hhhh", "x");
  CHECK(cache.find("llama3.2:1b").ends_with("Llama-3.2-1B-Instruct-Q4_K_M.gguf"));
  CHECK(cache.find("llama3.2:1b-q8_0") == "");
  CHECK(cache.find("llama3.2") == "");
}

TEST_CASE("a model with missing parts is not whole") {
  const Cache cache;
  const fs::path folder = cache.big.snapshot("333");
  CHECK(is_whole(folder));
  fs::remove(cache.big.blob("gggg"));
  CHECK(!is_whole(folder));
  Cache::put(cache.tiny, "new222222", "z-F16-00001-of-00002.gguf", "iiii", "1");
  const fs::path first = cache.tiny.snapshot("new222222") / "z-F16-00001-of-00002.gguf";
  CHECK(!is_whole(first));
  Cache::put(cache.tiny, "new222222", "z-F16-00002-of-00002.gguf", "jjjj", "2");
  CHECK(is_whole(first));
}

TEST_CASE("models are listed with the names that find them") {
  const Cache cache;
  std::string names;
  for (const CachedModel& model : cached_models(cache.tiny)) {
    names += model.name + " " + std::to_string(model.bytes) + "\n";
    CHECK(find_in_cache(cache.root, model.name) == model.path);
  }
  CHECK(names ==
        "acme/tiny-GGUF:Q4_0 4\nacme/tiny-GGUF:Q8_0 5\n"
        "acme/tiny-GGUF@old11111:Q4_0 4\nacme/tiny-GGUF@old11111:Q8_0 9\n");
  REQUIRE(cached_models(cache.big).size() == 1);
  CHECK(cached_models(cache.big)[0].name == "acme/big");
}

TEST_CASE("removing a model keeps the blobs that another one uses") {
  const Cache cache;
  const auto models = cached_models(cache.tiny);
  CHECK(remove_models(cache.tiny, {models[0], models[1]}) == 5);  // Q4_0 is in the old revision too
  CHECK(fs::exists(cache.tiny.blob("cccc")));
  CHECK(!fs::exists(cache.tiny.blob("bbbb")));
  CHECK(!fs::exists(cache.tiny.snapshot("new222222")));
  CHECK(!fs::exists(cache.tiny.ref("main")));
  CHECK(fs::exists(cache.tiny.ref("v1")));
  CHECK(remove_models(cache.tiny, cached_models(cache.tiny)) == 13);
  CHECK(cache.tiny.blobs().empty());
}

TEST_CASE("a repository that is being downloaded is not removed") {
  const Cache cache;
  put_file(cache.tiny.lock("kkkk"));
  {
    const auto lock = FileLock::try_take(cache.tiny.lock("kkkk"));
    REQUIRE(lock);
    CHECK(!FileLock::try_take(cache.tiny.lock("kkkk")));
    CHECK(error_text([&] { remove_repository(cache.tiny); }, Exit::Failed) ==
          "acme/tiny-GGUF: another process is downloading it; end that first");
  }
  put_file(cache.tiny.incomplete("kkkk"), "123");
  CHECK(unfinished_bytes(cache.tiny) == 3);
  CHECK(remove_repository(cache.tiny) == 9 + 5 + 4 + 3);
  CHECK(!fs::exists(cache.tiny.folder()));
  CHECK(!fs::exists(cache.tiny.locks()));
  CHECK(fs::exists(cache.big.folder()));
}

}  // namespace
}  // namespace skald::test
