#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/hostile.h"
#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

void check_no_model(const std::string& path, const std::string& says) {
  for (const char* command : {"run", "inspect", "bench", "diff"}) {
    CAPTURE(command, path);
    check_refused(skald({command, "-m", path}), 3, says);
  }
}

TEST_CASE("a path without a model ends with exit code 3 and the reason") {
  TempFolder folder;
  const std::string base = folder.path().string();
  std::filesystem::create_directory(folder.path() / "empty");
  std::filesystem::create_directory(folder.path() / "two");
  folder.write("two/a.gguf", "");
  folder.write("two/b.gguf", "");
  folder.write("zero", "");
  folder.write("zero.gguf", "");
  folder.write("text.gguf", "hello, this is text");
  folder.write("text", "hello, this is text");
  folder.write("lonely.safetensors", "hello");
  const std::string good = flat_gguf({});
  folder.write("cut.gguf", good.substr(0, good.size() - 1000));
  REQUIRE(::mkfifo((base + "/fifo").c_str(), 0600) == 0);

  check_no_model(base + "/nothing", "there is no such file or folder");
  check_no_model(base + "/text.guf", "did you mean 'text.gguf'?");
  std::filesystem::create_directory(folder.path() / "demos");
  std::filesystem::create_directory(folder.path() / "damos");
  folder.write("damos/config.json", "{}");
  check_no_model(base + "/demo", "did you mean 'damos'?");  // demos is nearer, but no model
  check_no_model(base + "/empty", "is not a model folder");
  check_no_model(base + "/two", "holds 2 GGUF files");
  check_no_model(base + "/zero", "is not a model");
  check_no_model(base + "/zero.gguf", "is empty");
  check_no_model(base + "/text.gguf", "expected 'GGUF'");
  check_no_model(base + "/text", "is not a model");
  check_no_model(base + "/lonely.safetensors", "there is no config.json beside it");
  check_no_model(base + "/cut.gguf", "cut.gguf: ");
  check_no_model(base + "/fifo", "is neither a file nor a folder");
  check_no_model("/dev/zero", "is neither a file nor a folder");
}

TEST_CASE("an error in config.json names the key and the expected value") {
  TempFolder folder;
  make_folder(folder.path() / "model", "llama-mha");
  const std::string model = (folder.path() / "model").string();
  const std::string original = read_file(folder.path() / "model/config.json");
  const auto with = [&](const std::string& key, const nlohmann::json& value) {
    auto config = nlohmann::json::parse(original);
    config[key] = value;
    return config.dump();
  };
  const struct {
    std::string config;
    const char* says;
  } cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "is not a JSON object"},
      {std::string(100000, '['), "not valid JSON"},
      {"{}", "'model_type' is missing"},
      {with("model_type", "gpt2"), "the architecture 'gpt2' is not supported; these are: "},
      {with("model_type", 5), "'model_type'"},
      {with("hidden_size", 1e18), "'hidden_size'"},
      {with("hidden_size", -1), "'hidden_size' is -1"},
      {with("hidden_size", 1.5), "'hidden_size' is 1.5"},
      {with("hidden_size", "many"), "'hidden_size' is \"many\""},
      {with("hidden_size", nullptr), "'hidden_size' is missing"},
      {with("num_hidden_layers", 2000000000), "'num_hidden_layers'"},
      {with("num_hidden_layers", 1000), "is missing"},
      {with("num_attention_heads", 0), "'num_attention_heads' is 0"},
      {with("num_key_value_heads", 3), "cannot share"},
      {with("vocab_size", 1 << 24), "expected [16777216, "},
      {with("max_position_embeddings", 1e300), "'max_position_embeddings'"},
      {with("rms_norm_eps", "x"), "'rms_norm_eps'"},
      {with("hidden_act", "swoosh"), "activation 'swoosh' is not supported"},
      {with("rope_scaling", {{"type", "wild"}}), "rope type 'wild' is not supported"},
      {with("rope_parameters", {{"rope_type", "ntk"}, {"factor", 2}}), "rope type 'ntk'"},
      {with("quantization_config", {{"quant_method", "hqq"}}),
       "'quant_method' is 'hqq', expected "},
      {with("model_type", "\x1b[2J"), "architecture"},
  };
  for (const auto& [config, says] : cases) {
    folder.write("model/config.json", config);
    const Outcome outcome = skald({"run", "-m", model, "hi", "-n", "1"});
    CAPTURE(config.substr(0, 100), outcome.err);
    check_refused(outcome, 3, says);
    CHECK(!has(outcome.err, "\x1b"));
    CHECK(outcome.err.size() < 1000);  // one of them lists all architectures
  }
}

TEST_CASE("a context that does not fit in memory ends with exit code 4") {
  if (sanitized()) return;
  TempFolder folder;
  FlatModel model;
  model.context = 1u << 31;
  const std::string path = folder.write("big.gguf", flat_gguf(model)).string();
  Invocation invocation{{"run", "-m", path, "--device", "cpu", "-c", "2147483648", "-n", "1", "hi"},
                        ""};
  invocation.address_space = 1 << 30;
  const Outcome outcome = run_program(invocation);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 4);
  CHECK(has(outcome.err, "with a context of 2147483648"));
  CHECK(has(outcome.err, "cache 256.00 GiB"));
  CHECK(has(outcome.err, "the largest context that fits is "));
  CHECK(has(outcome.err, "-c"));
}

TEST_CASE("a folder without a tokenizer can be inspected but not run") {
  const std::string model = (data_dir() / "goldens" / "llama-mha").string();
  const Outcome run = skald({"run", "-m", model, "hi"});
  CHECK(run.code == 3);
  CHECK(has(run.err, "has no tokenizer; expected tokenizer.json or tokenizer.model"));
  const Outcome inspect = skald({"inspect", model});
  CHECK(inspect.code == 0);
  CHECK(has(inspect.out, "tokenizer   none: "));
}

}  // namespace
}  // namespace skald::test
