// -ctk and -ctv as a user gives them.
#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

#include "tests/app/batch/files.h"
#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;

std::string demo() { return (source_dir() / "models" / "demo").string(); }

Json json_of(Arguments arguments, const Arguments& more = {}) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Json::parse(output(arguments));
}

TEST_CASE("every type of the cache computes, and changes the perplexity a little") {
  const std::string text = (data_dir() / "demo_heldout.txt").string();
  const Arguments command = {"perplexity", demo(), "-f", text,    "--chunks",
                             "2",          "-t",   "2",  "--json"};
  const Json usual = json_of(command);
  const double nll = usual["nll"]["value"];
  const struct {
    Arguments flags;
    const char* kv_type;
    double most;  // change of the mean negative log-likelihood
  } cases[] = {{{"-ctk", "bf16", "-ctv", "f32"}, "BF16 keys, F32 values", 2e-3},
               {{"--cache-type-k", "q8_0", "--cache-type-v", "q8_0"}, "Q8_0", 2e-3},
               {{"-ctk", "fp8", "-ctv", "fp8"}, "FP8", 6e-3},
               {{"-ctk", "Q8_0", "-ctv", "q4_0"}, "Q8_0 keys, Q4_0 values", 2e-2},
               {{"-ctk", "q4_0"}, "Q4_0 keys, F16 values", 2e-2}};
  for (const auto& [flags, kv_type, most] : cases) {
    CAPTURE(kv_type);
    const Json json = json_of(command, flags);
    CHECK(json["model"]["kv_type"] == kv_type);
    const double change = std::abs(json["nll"]["value"].get<double>() - nll);
    CHECK(change > 0);
    CHECK(change < most);
  }
}

TEST_CASE("types that the cache has not, or that do not take the model's heads, are refused") {
  for (const char* type : {"q4_1", "iq4_nl", "q5_0", "q5_1", "f8", ""}) {
    check_refused(skald({"run", "-ctk", type, "x"}), 2,
                  std::string("--cache-type-k '") + type +
                      "': the KV cache has no such type; it has f32, f16, bf16, q8_0, fp8, q4_0");
  }
  check_refused(skald({"run", "-ctv", "q5_1", "x"}), 2, "--cache-type-v 'q5_1'");
  check_refused(skald({"run", "-ctkd", "q8_0", "x"}), 2, "a draft model's KV cache has 16 bits");
  // Heads of 100 dimensions.
  const std::string odd = (data_dir() / "goldens" / "openllama-headdim100").string();
  for (const char* type : {"q8_0", "q4_0"}) {
    check_refused(skald({"plan", odd, "-ctv", type}), 2,
                  "this model's heads have 100 dimensions; choose fp8, f16 ");
  }
}

TEST_CASE("a plan counts the bytes of both types, and names them if they were chosen") {
  const Arguments command = {"plan", small_gguf(), "-c", "256", "--sequences", "3", "--json"};
  const auto cache = [](const Json& plan) {
    for (const Json& part : plan["parts"]) {
      if (part["name"] == "cache") return part["bytes"].get<int64_t>();
    }
    return int64_t{-1};
  };
  const Json usual = json_of(command);
  CHECK(usual["cache_type_k"] == "f16");
  CHECK(usual["cache_type_v"] == "f16");
  // One layer with two heads of keys and of values, each of 64 dimensions.
  constexpr int64_t kNumbers = int64_t{3} * 256 * 2 * 64;
  CHECK(cache(usual) == 2 * 2 * kNumbers);
  const Json mixed = json_of(command, {"-ctk", "q8_0", "-ctv", "q4_0"});
  CHECK(mixed["cache_type_k"] == "q8_0");
  CHECK(mixed["cache_type_v"] == "q4_0");
  CHECK(cache(mixed) == kNumbers * 34 / 32 + kNumbers * 18 / 32);
  CHECK(cache(json_of(command, {"-ctv", "fp8"})) == 3 * kNumbers);
  CHECK(cache(json_of(command, {"--exact"})) == 2 * 4 * kNumbers);
  CHECK(!has(output({"plan", small_gguf()}), "KV cache"));
  CHECK(has(output({"plan", small_gguf(), "-ctk", "q8_0"}), "KV cache   Q8_0 keys, F16 values\n"));
  // Beside codes, a GPU has a cache of one layer in 16 bits.
  const Arguments gpu = {"--gpu", "sm_90:132:141G", "-ctk", "q8_0", "-ctv", "q8_0"};
  CHECK(cache(json_of(command, gpu)) == 2 * kNumbers * 34 / 32 + 2 * 2 * kNumbers);
}

TEST_CASE("a prompt cache of other types is computed again") {
  const TempFolder folder;
  const Arguments command = {"run",
                             "-m",
                             small_gguf(),
                             "Once upon a time there was a fox.",
                             "--temp",
                             "0",
                             "--ignore-eos",
                             "-n",
                             "4",
                             "-t",
                             "1",
                             "--json",
                             "--prompt-cache",
                             (folder.path() / "cache").string()};
  CHECK(json_of(command)["cached_tokens"] == 0);
  CHECK(json_of(command)["cached_tokens"] > 0);
  const Arguments types = {"-ctk", "q8_0", "-ctv", "q4_0"};
  Arguments all = command;
  all.insert(all.end(), types.begin(), types.end());
  const Outcome other = skald(all);
  CHECK(Json::parse(other.out)["cached_tokens"] == 0);
  CHECK(has(other.err, "was made with another model, other settings or another kind of machine"));
  CHECK(json_of(command, types)["cached_tokens"] > 0);
  CHECK(json_of(command, {"-ctk", "q8_0"})["cached_tokens"] == 0);
}

TEST_CASE("a batch with other types is not continued, and one without flags as before") {
  const BatchFiles files(R"({"id": "a", "prompt": "Once upon a time"})"
                         "\n"
                         R"({"id": "b", "prompt": "There was"})"
                         "\n");
  CHECK(files.run({"-n", "4"}).code == 0);
  CHECK(!files.manifest()["settings"].contains("cache_type_k"));
  const Outcome other = files.run({"-ctk", "q8_0", "-n", "4", "--resume"});
  check_refused(other, 2, "cache_type_k \"q8_0\", was null");
  std::filesystem::remove(files.out);
  CHECK(files.run({"-ctk", "q8_0", "-n", "4"}).code == 0);
  CHECK(files.manifest()["settings"]["cache_type_k"] == "q8_0");
  CHECK(!files.manifest()["settings"].contains("cache_type_v"));
  const std::string report = files.out + ".report";
  CHECK(has(output(files.arguments({"--dry-run", "--report", report, "-ctk", "q8_0"})),
            " tokens in the cache as Q8_0 keys, F16 values\n"));
  const Json estimate = Json::parse(read_file(report));
  CHECK(estimate["cache_type_k"] == "q8_0");
  CHECK(estimate["cache_type_v"] == "f16");
}

TEST_CASE("bench reports the cache's types") {
  const Arguments command = {"bench", small_gguf(), "-p", "0", "-n", "2", "-r", "1", "-t", "1"};
  Arguments with_types = command;
  with_types.insert(with_types.end(), {"-ctk", "fp8", "-ctv", "q4_0"});
  const Json json = json_of(with_types, {"--json"});
  CHECK(json["cache_type_k"] == "fp8");
  CHECK(json["cache_type_v"] == "q4_0");
  CHECK(has(output(with_types), "FP8 keys, Q4_0 values"));
  CHECK(!has(output(command), "KV cache"));
}

TEST_CASE("two ranks have caches of the chosen types and write nearly the text of one") {
  const Arguments command = {
      "run", "-m",   demo(), "Once upon a time", "--temp", "0",    "-n",  "8", "-t",
      "2",   "-ctk", "q8_0", "--device",         "cpu",    "-ctv", "q8_0"};
  Arguments two = command;
  two.insert(two.end(), {"--tp", "2"});
  CHECK(output(two) == output(command));
}

}  // namespace
}  // namespace skald::test
