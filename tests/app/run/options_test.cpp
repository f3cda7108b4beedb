// Options of skald run: text from a pipe, chat templates, stop strings, reports.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

// A model that generates "xy" for ever, or the token that a bias chooses.
struct XyModel {
  TempFolder folder;
  std::string model;

  explicit XyModel(FlatModel flat = {}) {
    flat.extra_piece = "xy";
    model = folder.write("flat.gguf", flat_gguf(flat)).string();
  }

  Arguments arguments(const Arguments& more) const {
    Arguments all{"run", "-m", model, "--temp", "0", "-l", "259+5"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome run(const Arguments& more, const std::string& input = "") const {
    return skald(arguments(more), input);
  }
  Json report(const Arguments& more, const std::string& input = "") const {
    Arguments all{"--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(all, input);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.out.find('\n') == outcome.out.size() - 1);
    return Json::parse(outcome.out);
  }
};

constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
    "{% if mood %}({{ mood }}){% endif %}[assistant]";

TEST_CASE("text from a pipe is appended to the prompt") {
  const XyModel model;
  TempFolder folder;
  const std::string file = folder.write("prompt.txt", "Sum up:\n").string();
  const auto prompt = [&](const Arguments& more, const std::string& input) {
    Arguments all{"-n", "0"};
    all.insert(all.end(), more.begin(), more.end());
    return model.report(all, input)["prompt"];
  };
  CHECK(prompt({"Sum up:"}, "a text\n") == "Sum up:\n\na text");
  CHECK(prompt({"-p", "Sum up:"}, "a\nb") == "Sum up:\n\na\nb");
  CHECK(prompt({"-f", file}, "a text") == "Sum up:\n\na text");
  CHECK(prompt({"Sum up:"}, "") == "Sum up:");
  CHECK(prompt({"Sum up:"}, "\n") == "Sum up:");
  CHECK(prompt({""}, "a text") == "a text");
  // -e applies to the typed prompt alone.
  CHECK(prompt({"-e", "a\\tb"}, "c\\td") == "a\tb\n\nc\\td");
  CHECK(prompt({"-f", "-"}, "alone") == "alone");
}

TEST_CASE("a closed stdin adds nothing to a prompt and does not replace one") {
  const XyModel model;
  Invocation invocation{model.arguments({"a", "-n", "1"}), ""};
  invocation.no_in = true;
  CHECK(run_program(invocation).out == "xy");
  invocation.arguments = model.arguments({"-n", "1"});
  const Outcome outcome = run_program(invocation);
  CHECK(outcome.code == 2);
  CHECK(has(outcome.err, "no prompt"));
}

TEST_CASE("while stdin stays open, a hint says what skald waits for") {
  const XyModel model;
  for (const Arguments& more : {Arguments{"a"}, Arguments{}}) {
    Invocation invocation{model.arguments(more), "some text"};
    invocation.input_stays_open = true;
    invocation.seconds = 4;
    const Outcome outcome = run_program(invocation);
    CHECK(outcome.signal == SIGKILL);
    CHECK(outcome.err ==
          "skald: waiting for the end of stdin; where nothing will come, add < /dev/null\n");
  }
}

TEST_CASE("run --chat renders the prompt through the model's template") {
  FlatModel flat;
  flat.chat_template = kTemplate;
  const XyModel model(flat);
  const auto prompt = [&](const Arguments& more, const std::string& input = "") {
    Arguments all{"-n", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return model.report(all, input)["prompt"];
  };
  CHECK(prompt({"Hi"}) == "Hi");
  CHECK(prompt({"Hi", "--raw"}) == "Hi");
  CHECK(prompt({"Hi", "--chat"}) == "[user] Hi[assistant]");
  CHECK(prompt({"Hi", "--chat", "-sys", "Be brief."}) == "[system] Be brief.[user] Hi[assistant]");
  CHECK(prompt({"Hi", "-sys", "Be brief."}) == "[system] Be brief.[user] Hi[assistant]");
  CHECK(prompt({"Hi", "--system-prompt=-sys"}) == "[system] -sys[user] Hi[assistant]");
  CHECK(prompt({"-e", "Hi\\n", "-sys", "a\\tb"}) == "[system] a\tb[user] Hi\n[assistant]");
  CHECK(prompt({"What is this?", "--chat"}, "data") == "[user] What is this?\n\ndata[assistant]");
  CHECK(prompt({"Hi", "--chat-template-kwargs", "{\"mood\": \"good\"}"}) ==
        "[user] Hi(good)[assistant]");
  CHECK(prompt({"Hi", "--chat-template", "chatml"}) ==
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(model.run({"Hi", "--chat", "-n", "1"}).out == "xy");
}

TEST_CASE("run --chat with a model without a template advises --chat-template") {
  const XyModel model;
  const Outcome outcome = model.run({"Hi", "--chat"});
  CHECK(outcome.code == 3);
  CHECK(has(outcome.err, "no chat template; choose one with --chat-template"));
}

TEST_CASE("run --stop ends the text before the stop string, which need not end at a token's end") {
  const XyModel model;
  const auto text = [&](const Arguments& more) {
    Arguments all(more);
    all.push_back("a");
    const Outcome outcome = model.run(all);
    CHECK(outcome.code == 0);
    CHECK(outcome.err == "");
    return outcome.out;
  };
  CHECK(text({"--stop", "yxyxy"}) == "x");
  CHECK(text({"--stop", "xy"}) == "");
  CHECK(text({"--stop", "zz", "--stop", "yx"}) == "x");
  CHECK(text({"--stop", "yxyxy", "--stop=yxy"}) == "x");
  CHECK(text({"--stop", "yy", "-n", "2"}) == "xyxy");
  CHECK(text({"--stop", "yyz", "-n", "3"}) == "xyxyxy");
  CHECK(text({"-e", "--stop", "\\x79x"}) == "x");
  CHECK(model.run({"a", "--stop", "y\xff", "-n", "2"}).out == "xyxy");
}

TEST_CASE("run --json prints one object with text, ids, reason and timings") {
  const XyModel model;
  Json report = model.report({"a", "-n", "3", "-s", "7"});
  CHECK(report["text"] == "xyxyxy");
  CHECK(report["ids"] == Json({259, 259, 259}));
  CHECK(report["finish_reason"] == "length");
  CHECK(report["stop"] == nullptr);
  CHECK(report["seed"] == 7);
  CHECK(report["prompt"] == "a");
  CHECK(report["prompt_tokens"] == 2);
  CHECK(report["cached_tokens"] == 0);
  CHECK(report["model"] == model.model);
  CHECK(has(report["device"].get<std::string>(), "cpu"));
  CHECK(report["memory_bytes"] > 1000);
  CHECK(report["timings"]["first_token_seconds"] > report["timings"]["prompt_seconds"]);
  CHECK(report["timings"]["tokens_per_second"] > 0);
  CHECK(!report.contains("logprobs"));

  report = model.report({"a", "--stop", "yx"});
  CHECK(report["text"] == "x");
  CHECK(report["finish_reason"] == "stop");
  CHECK(report["stop"] == "yx");
  report = model.report({"a", "-l", "2+9"});
  CHECK(report["text"] == "");
  CHECK(report["finish_reason"] == "stop");
  CHECK(report["ids"] == Json({2}));
  report = model.report({"a", "-n", "0"});
  CHECK(report["ids"] == Json::array());
  CHECK(!report["timings"].contains("first_token_seconds"));
  report = model.report({"a", "-n", "1"});
  CHECK(!report["timings"].contains("tokens_per_second"));
}

TEST_CASE("a report says that the context is full") {
  const XyModel model;
  const Outcome outcome = model.run({"a", "--json", "-c", "6"});
  CHECK(outcome.code == 0);
  CHECK(Json::parse(outcome.out)["finish_reason"] == "context");
  CHECK(has(outcome.err, "the context of 6 tokens is full"));
}

TEST_CASE("run --logprobs adds the log-probability of each token and of the best tokens") {
  const XyModel model;
  // All logits are 0, the bias excepted. Log-probabilities are computed without the bias:
  // ln(1/260).
  const Json report = model.report({"a", "-n", "2", "--logprobs", "3"});
  REQUIRE(report["logprobs"].size() == 2);
  const Json& first = report["logprobs"][0];
  CHECK(first["id"] == 259);
  CHECK(first["token"] == "xy");
  CHECK(first["logprob"].get<double>() == Approx(-std::log(260.0)));
  REQUIRE(first["top"].size() == 3);
  CHECK(first["top"][0]["id"] == 0);
  CHECK(first["top"][1]["token"] == "<s>");
  const Json plain = model.report({"a", "-n", "1", "--logprobs", "0"});
  CHECK(plain["logprobs"][0]["top"] == Json::array());
  // A token that is one byte of a longer character.
  const std::string bias = std::to_string(kFirstByteToken + 0xc3) + "+9";
  const Json byte = model.report({"a", "-n", "1", "-l", bias, "--logprobs", "0"});
  CHECK(byte["logprobs"][0]["token"] == "\xEF\xBF\xBD");
  CHECK(byte["logprobs"][0]["bytes"] == Json({0xc3}));
}

TEST_CASE("a report escapes control characters, which a terminal would obey") {
  FlatModel flat;
  const XyModel model(flat);
  const std::string del = std::to_string(kFirstByteToken + 0x7f) + "+9";
  const Outcome outcome = model.run({"a\xc2\x9b\x1b", "-n", "2", "-l", del, "--json"});
  CHECK(has(outcome.out, "\"text\":\"\\u007f\\u007f\""));
  CHECK(has(outcome.out, "\"prompt\":\"a\\u009b\\u001b\""));
  CHECK(Json::parse(outcome.out)["text"] == "\x7f\x7f");
}

}  // namespace
}  // namespace skald::test
