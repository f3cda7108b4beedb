#include "models/text/tokenizer_hash.h"

#include "app/model/open.h"
#include "tests/catch.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const fs::path& path) { return tokenizer_hash(*open_tokenizer(path)); }

TEST_CASE("a tokenizer's hash depends on its vocabulary, not on its path") {
  TempFolder folder;
  const fs::path model = data_dir() / "tokenizer" / "unigram.model";
  make_folder(folder.path() / "model", "llama-mha");
  CHECK(hash_of(model).size() == 64);
  CHECK(hash_of(folder.path() / "model") == hash_of(model));
  const std::string flat = hash_of(folder.write("a.gguf", flat_gguf({})));
  CHECK(flat != hash_of(model));
  CHECK(hash_of(folder.write("b.gguf", flat_gguf({.context = 7}))) == flat);
  CHECK(hash_of(folder.write("c.gguf", flat_gguf({.extra_piece = "y"}))) != flat);
}

TEST_CASE("a tokenizer has the same hash in a GGUF and in a folder") {
  if (!have_shared("goldens/gguf-stories")) return;
  const fs::path goldens = shared_dir() / "goldens";
  CHECK(hash_of(goldens / "gguf-stories" / "stories260K.f32.gguf") ==
        hash_of(goldens / "stories260K"));
}

}  // namespace
}  // namespace skald::test
