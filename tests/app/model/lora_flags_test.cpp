// --lora and --lora-merge, as the commands take them.
#include "app/model/lora_flags.h"

#include "models/fingerprint.h"
#include "tests/catch.h"
#include "tests/models/adapters/adapter_files.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

std::string usage_error(const LoraFlags& flags, int ranks = 1) {
  TempFolder temp;
  OpenedModel opened = open_model(write_folder(temp, "nemo"));
  opened.model.shard.of = ranks;
  return error_text([&] { add_adapters(flags, opened); }, Exit::Usage);
}

TEST_CASE("contradictory flags of adapters are refused") {
  const std::string all = lora("all").string();
  CHECK(usage_error({{all, all + ":0.5"}}).empty());
  CHECK(has(usage_error({{}, false, true}), "needs --lora"));
  CHECK(has(usage_error({{all}}, 2), "leave out --tp"));
  CHECK(has(usage_error({{all + ":half"}}), "'half' is no scale"));
  CHECK(has(usage_error({{all + ":inf"}}), "'inf' is no scale"));
  CHECK(has(usage_error({{all + ":"}}), "is no scale"));
  CHECK(has(usage_error({{"a=" + all, all}, true}), "either every adapter has a name"));
  CHECK(has(usage_error({{"=" + all}, true}), "the name before = is empty"));
  CHECK(has(usage_error({{"a=" + all}, true, true}), "without names"));
}

TEST_CASE("scales are those of the flags, and names choose adapters") {
  TempFolder temp;
  const std::string all = lora("all").string();
  const auto opened = [&](const LoraFlags& flags) {
    OpenedModel model = open_model(write_folder(temp, "nemo"));
    add_adapters(flags, model);
    return model;
  };
  CHECK(model_hash(opened({{all, all}})) != model_hash(opened({{all + ":2"}})));
  const OpenedModel halves = opened({{all + ":0.5"}});
  const Adapter half = load_adapter(halves, "", std::vector<LoraUse>{{all, 0.5f}});
  CHECK(halves.model.adapters->front().matrices.front().up == half.matrices.front().up);
  const OpenedModel named = opened({{"b=" + all, "a=" + all + ":2", "b=" + all}, true});
  REQUIRE(named.model.adapters->size() == 3);
  const Adapters& adapters = *named.model.adapters;
  CHECK(adapters[0].matrices.empty());
  CHECK(adapters[1].name == "b");
  CHECK(adapters[1].matrices.front().rank == 2 * adapters[2].matrices.front().rank);
  CHECK(adapters[2].name == "a");
  // Merged weights have no adapter left, and a hash of their own.
  const OpenedModel merged = opened({{all}, false, true});
  CHECK(!merged.model.adapters);
  CHECK(model_hash(merged) != model_hash(opened({{all}})));
}

}  // namespace
}  // namespace skald::test
