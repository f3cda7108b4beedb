// skald inspect of an adapter.
#include "app/inspect/adapter_report.h"

#include "app/files/json.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/models/adapters/adapter_files.h"

namespace skald::test {
namespace {

TEST_CASE("inspect shows the matrices of an adapter, their ranks and their scales") {
  const LoraFile file = open_lora(lora("all"));
  const std::string text = adapter_text(file, true);
  CHECK(has(text, "LoRA, PEFT folder"));
  CHECK(has(text, "made for    nemo"));
  CHECK(has(text, "28: 4 down_proj, 4 gate_proj"));
  CHECK(has(text, "rank        2 to 3"));
  const Json report = parse_json(adapter_json(file));
  CHECK(report["format"] == "PEFT");
  REQUIRE(report["matrices"].size() == 28);
  for (const Json& matrix : report["matrices"]) {
    const std::string name = matrix["name"];
    const bool down = has(name, "down_proj"), other = name == "model.layers.1.self_attn.q_proj";
    CHECK(matrix["rank"] == (down ? 3 : 2));
    // alpha is 6, and 11 for one matrix
    CHECK(matrix["scale"] == (other ? 11 / 2.0 : 6.0 / (down ? 3 : 2)));
    if (other) CHECK(matrix["shape"] == Json::array({32, 24}));
  }
}

TEST_CASE("inspect shows a GGUF adapter, and knows one from a model") {
  TempFolder temp;
  const OpenedModel opened = open_model(write_folder(temp, "nemo"));
  const Adapter adapter = load_adapter(opened, "", std::vector<LoraUse>{{lora("rslora")}});
  const fs::path path = temp.write("a.gguf", gguf_adapter(adapter, "llama").file());
  CHECK(has(adapter_text(open_lora(path), false), "of architecture llama"));
  CHECK(seems_an_adapter(path));
  CHECK(seems_an_adapter(lora("all")));
  CHECK(!seems_an_adapter(opened.path));
  CHECK(!seems_an_adapter(temp.path() / "nothing"));
  CHECK(!seems_an_adapter(data_dir() / "gguf" / "kq256.q8_0.gguf"));
}

}  // namespace
}  // namespace skald::test
