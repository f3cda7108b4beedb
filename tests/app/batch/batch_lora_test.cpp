// skald batch: lines that choose an adapter by their field model.
#include "tests/app/batch/files.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/gguf_writer.h"

namespace skald::test {
namespace {

const std::vector<std::string> kAnswer{"--temp", "0", "--ignore-eos", "-n", "10"};

// Changes the values of the first layer of small_gguf(), whose width is 256, strongly enough for
// other tokens.
std::string adapter_file(float strength) {
  constexpr uint64_t kDim = 256;
  std::string a, b;
  for (uint64_t i = 0; i < kDim; ++i) {
    a += raw(i % 3 == 0 ? 0.3f : -0.2f);
    b += raw(i % 5 == 0 ? strength : -strength / 2);
  }
  GgufWriter writer;
  writer.text("general.type", "adapter");
  writer.text("general.architecture", "llama");
  writer.text("adapter.type", "lora");
  writer.f32("adapter.lora.alpha", 1);
  writer.tensors.push_back({"blk.0.attn_output.weight.lora_a", {kDim, 1}, 0, a});
  writer.tensors.push_back({"blk.0.attn_output.weight.lora_b", {1, kDim}, 0, b});
  return writer.file();
}

TEST_CASE("a line's model chooses the adapter") {
  const auto line = [](const std::string& model) {
    return "{\"model\":\"" + model + "\",\"prompt\":\"Once upon\"}\n";
  };
  const BatchFiles files(line("one") + line("two") + line("kq256.q8_0.gguf") +
                         "{\"prompt\":\"Once upon\"}\n" + line("three") + line("one"));
  TempFolder temp;
  const std::string one = temp.write("one.gguf", adapter_file(8)).string();
  const std::string two = temp.write("two.gguf", adapter_file(-20)).string();
  std::vector<std::string> flags = kAnswer;
  flags.insert(flags.end(), {"--lora", "one=" + one, "--lora", "two=" + two});
  const Outcome outcome = files.run(flags);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 5);
  const std::vector<Json> results = files.results();
  REQUIRE(results.size() == 6);
  const auto run_text = [](const std::vector<std::string>& more) {
    std::vector<std::string> command{"run", "-m", small_gguf(), "-p", "Once upon"};
    command.insert(command.end(), kAnswer.begin(), kAnswer.end());
    command.insert(command.end(), more.begin(), more.end());
    return skald(command).out;
  };
  const auto text = [&](size_t i) {
    return results[i]["response"]["body"]["choices"][0]["text"].get<std::string>();
  };
  CHECK(text(0) == run_text({"--lora", one}));
  CHECK(text(1) == run_text({"--lora", two}));
  CHECK(text(2) == run_text({}));
  CHECK(text(3) == run_text({}));
  CHECK(text(5) == text(0));
  CHECK(text(0) != text(1));
  CHECK(text(0) != text(2));
  CHECK(text(1) != text(2));
  CHECK(results[0]["response"]["body"]["model"] == "one");
  CHECK(has(results[4].dump(), "there is no adapter 'three'; there are: "));
}

TEST_CASE("an adapter does not take the name of its model") {
  const BatchFiles files("{\"prompt\":\"Once upon\"}\n");
  TempFolder temp;
  const std::string one = temp.write("one.gguf", adapter_file(8)).string();
  const Outcome outcome = files.run({"--lora", "kq256.q8_0.gguf=" + one});
  CHECK(outcome.code == 2);
  CHECK(has(outcome.err, "is the name of the model itself"));
}

TEST_CASE("without names, adapters change all lines, and any model may be named") {
  const BatchFiles files("{\"model\":\"gpt\",\"prompt\":\"Once upon\"}\n");
  TempFolder temp;
  const std::string one = temp.write("one.gguf", adapter_file(8)).string();
  std::vector<std::string> flags = kAnswer;
  flags.insert(flags.end(), {"--lora", one});
  CHECK(files.run(flags).code == 0);
  const std::vector<Json> results = files.results();
  std::vector<std::string> command{"run", "-m", small_gguf(), "-p", "Once upon", "--lora", one};
  command.insert(command.end(), kAnswer.begin(), kAnswer.end());
  CHECK(results.at(0)["response"]["body"]["choices"][0]["text"] == skald(command).out);
}

}  // namespace
}  // namespace skald::test
