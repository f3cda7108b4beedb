#include "models/fingerprint.h"

#include <set>

#include "models/files/gguf.h"
#include "tests/catch.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const fs::path& path) { return model_hash(open_model(path)); }

TEST_CASE("a model's hash does not depend on the place and name of its files") {
  TempFolder folder;
  const fs::path golden = data_dir() / "goldens" / "llama-mha";
  make_folder(folder.path() / "copy", "llama-mha");
  const std::string hash = hash_of(golden);
  CHECK(hash.size() == 64);
  CHECK(hash_of(folder.path() / "copy") == hash);
  CHECK(hash_of(golden / "config.json") == hash);
  fs::copy_file(small_gguf(), folder.path() / "a.gguf");
  CHECK(hash_of(folder.path() / "a.gguf") == hash_of(small_gguf()));
}

TEST_CASE("different models have different hashes") {
  std::set<std::string> hashes;
  size_t models = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir() / "gguf")) {
    if (entry.path().extension() != ".gguf") continue;
    hashes.insert(hash_of(entry.path()));
    ++models;
  }
  CHECK(models > 1);
  CHECK(hashes.size() == models);
}

TEST_CASE("a model's hash covers weights, shapes and configuration, but no names and templates") {
  TempFolder folder;
  const std::string plain = hash_of(folder.write("m.gguf", flat_gguf({})));
  CHECK(hash_of(folder.write("m.gguf", flat_gguf({.embedding = 1}))) != plain);
  CHECK(hash_of(folder.write("m.gguf", flat_gguf({.context = 513}))) != plain);
  CHECK(hash_of(folder.write("m.gguf", flat_gguf({.chat_template = "{{ x }}"}))) == plain);
  CHECK(hash_of(folder.write("m.gguf", flat_gguf({.extra_piece = "y"}))) == plain);
}

TEST_CASE("a model's hash covers the last bytes of a large tensor") {
  TempFolder folder;
  std::string file = flat_gguf({});
  const std::string before = hash_of(folder.write("m.gguf", file));
  file.back() ^= 1;  // the last byte of output.weight, which has 33 KB
  CHECK(hash_of(folder.write("m.gguf", file)) != before);
}

}  // namespace
}  // namespace skald::test
