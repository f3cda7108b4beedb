#include "models/open.h"

#include "models/files/gguf.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a folder can be opened by its path and by each of its files") {
  const fs::path folder = data_dir() / "goldens" / "llama-mha";
  for (const fs::path& path :
       {folder, folder / "", folder / "config.json", folder / "model.safetensors"}) {
    const OpenedModel opened = open_model(path);
    CHECK(opened.family == "Llama");
    CHECK(!opened.gguf);
    CHECK(opened.model.config.vocab == 512);
    CHECK(opened.model.program().vocab() == 512);
  }
}

TEST_CASE("a GGUF can be opened by its path, by its folder when alone there, and under any name") {
  TempFolder folder;
  const fs::path file = folder.write("model.gguf", flat_gguf({}));
  CHECK(open_model(file).model.config.vocab == 260);
  CHECK(open_model(folder.path()).path == file);
  CHECK(open_model(folder.path()).gguf);
  fs::rename(file, folder.path() / "model.bin");
  CHECK(open_model(folder.path() / "model.bin").gguf);
  CHECK(has(error_text([&] { open_model(folder.path()); }), "is not a model folder"));
}

TEST_CASE("two GGUFs in a folder are an error that asks for one of them") {
  TempFolder folder;
  folder.write("b.gguf", flat_gguf({}));
  folder.write("a.gguf", flat_gguf({}));
  CHECK(has(error_text([&] { open_model(folder.path()); }),
            "holds 2 GGUF files; name one of them, for instance a.gguf"));
}

TEST_CASE("an opened model stays readable after its file was removed") {
  TempFolder folder;
  const fs::path file = folder.write("model.gguf", flat_gguf({}));
  const OpenedModel opened = open_model(file);
  fs::remove(file);
  const Tensor* norm = opened.model.weights->find("output_norm.weight");
  REQUIRE(norm);
  float first = 0;
  info(norm->view.type).decode_row(norm->view.data, &first, 1);
  CHECK(first == 1);
}

TEST_CASE("a missing tensor or a missing model is found when the file is opened") {
  TempFolder folder;
  const auto renamed = [](std::string file, const std::string& from, const std::string& to) {
    return file.replace(file.find(from), from.size(), to);
  };
  const std::string good = flat_gguf({});
  folder.write("model.gguf", renamed(good, "blk.0.ffn_up.weight", "blk.0.ffn_xx.weight"));
  CHECK(has(error_text([&] { open_model(folder.path() / "model.gguf"); }),
            "tensor 'blk.0.ffn_up.weight' is missing (expected [32, 32])"));
  folder.write("model.gguf", renamed(good, "token_embd.weight", "token_embx.weight"));
  CHECK(has(error_text([&] { open_model(folder.path() / "model.gguf"); }),
            "holds a vocabulary but no model"));
}

TEST_CASE("different unreadable paths get different errors") {
  TempFolder folder;
  folder.write("model.safetensors", "x");
  CHECK(has(error_text([&] { open_model(folder.path() / "model.safetensors"); }),
            "there is no config.json beside it"));
  CHECK(has(error_text([&] { open_model(folder.path() / "model.safetensor"); }),
            "did you mean 'model.safetensors'?"));
  CHECK(has(error_text([&] { open_model(folder.path() / "nothing like it"); }),
            "there is no such file or folder"));
  CHECK(has(error_text([] { open_model(""); }), "there is no such file or folder"));
}

}  // namespace
}  // namespace skald::test
