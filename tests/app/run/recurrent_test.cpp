// A model with recurrent states in the program's commands: prompt caches, saved conversations,
// several answers to one prompt, plans, and GPUs that refuse it.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/json_lines.h"
#include "tests/process.h"
#include "tests/recurrent_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

struct CachedModel {
  TempFolder folder;
  std::string gguf = folder.write("recurrent.gguf", RecurrentGguf().file()).string();
  std::string cache = (folder.path() / "cache").string();

  Arguments arguments(const std::string& prompt, const Arguments& more) const {
    Arguments all{"run", "-m", gguf, prompt, "--temp", "0", "--ignore-eos"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // The number of cached tokens; checks that the text is that of a run without a cache.
  int64_t cached(const std::string& prompt, const std::string& count = "12") const {
    const Outcome plain = skald(arguments(prompt, {"-n", count}));
    const Outcome outcome =
        skald(arguments(prompt, {"-n", count, "--json", "--prompt-cache", cache}));
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const Json json = Json::parse(outcome.out);
    CHECK(json["text"] == plain.out);
    return json["cached_tokens"].get<int64_t>();
  }
};

const std::string kRecurrentStory =
    "Once upon a time there was a fox. It lived in the wood with its friends";
const int64_t kStoryTokens =
    std::ssize(kRecurrentStory);  // each byte is a token; there may be one in front

}  // namespace

TEST_CASE(
    "a prompt cache with a recurrent state serves the prompt, and prompts that go on from it") {
  const CachedModel model;
  CHECK(model.cached(kRecurrentStory) == 0);
  const int64_t again = model.cached(kRecurrentStory);
  CHECK(again >= kStoryTokens - 1);
  CHECK(model.cached(kRecurrentStory + ", the bear and the hare") == again);
  // A state belongs to one length: for a prompt that leaves the saved one before, it is of no use.
  CHECK(model.cached(kRecurrentStory.substr(0, 20) + " she") == 0);
}

TEST_CASE("run -n 0 fills a prompt cache with a state that the same prompt can use") {
  const CachedModel model;
  CHECK(model.cached(kRecurrentStory, "0") == 0);
  CHECK(model.cached(kRecurrentStory) >= kStoryTokens - 1);
}

TEST_CASE("a damaged state in a prompt cache is reported, and the prompt computed") {
  const CachedModel model;
  model.cached(kRecurrentStory);
  std::string bytes = read_file(model.cache);
  bytes[bytes.size() - 100] ^= 1;  // the state stands at the end
  model.folder.write("cache", bytes);
  const Outcome outcome = skald(
      model.arguments(kRecurrentStory, {"-n", "12", "--json", "--prompt-cache", model.cache}));
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err, "is damaged; computing the whole prompt"));
  CHECK(Json::parse(outcome.out)["cached_tokens"] == 0);
  model.folder.write("cache", bytes.substr(0, bytes.size() - 1));
  CHECK(has(skald(model.arguments(kRecurrentStory, {"-n", "1", "--prompt-cache", model.cache})).err,
            "is cut short"));
}

TEST_CASE("a batch of a model with states gives the texts of single runs") {
  const CachedModel model;
  std::string input;
  for (int i = 0; i < 5; ++i) {
    input += Json{{"id", std::to_string(i)},
                  {"prompt", kRecurrentStory.substr(0, 10 + static_cast<size_t>(12 * i))},
                  {"max_tokens", 20},
                  {"temperature", 0},
                  {"n", 2},
                  {"ignore_eos", true}}
                 .dump() +
             "\n";
  }
  const auto path = model.folder.write("in.jsonl", input);
  const Outcome outcome = skald({"batch", "-m", model.gguf, "-i", path.string(), "-o", "-"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const std::vector<Json> lines = json_lines(outcome.out);
  REQUIRE(lines.size() == 5);
  for (const Json& line : lines) {
    const size_t i = static_cast<size_t>(std::stoi(line.at("custom_id").get<std::string>()));
    const std::string prompt = kRecurrentStory.substr(0, 10 + 12 * i);
    const std::string expected = skald(model.arguments(prompt, {"-n", "20"})).out;
    for (const Json& choice : line.at("response").at("body").at("choices"))
      CHECK(choice.at("text") == expected);
  }
}

TEST_CASE("inspect says which layers have a delta net, and that attention is gated") {
  const CachedModel model;
  const Outcome text = skald({"inspect", model.gguf});
  CHECK(text.code == 0);
  CHECK(has(text.out, "delta nets  4 states of 12 x 20, 2 heads of keys in 2 of 3 layers\n"));
  CHECK(has(text.out, "norms of queries and keys, gated\n"));
  const Json json = Json::parse(skald({"inspect", model.gguf, "--json"}).out);
  CHECK(json.at("config").at("delta_net_layers") == Json({0, 2}));
  CHECK(json.at("config").at("attention_gate") == true);
}

TEST_CASE("plan counts recurrent states, on the CPU and on a GPU") {
  const CachedModel model;
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--device", "cpu"}, {"--gpu", "sm_90:132:80G"}}) {
    CAPTURE(where[0]);
    const Outcome plan = skald({"plan", "-m", model.gguf, where[0], where[1]});
    CHECK(plan.code == 0);
    CHECK(has(plan.out, "recurrent states"));
  }
}

}  // namespace skald::test
