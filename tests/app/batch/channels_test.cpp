// skald batch with a model that answers in channels, and thinking between tags.
#include "tests/app/batch/files.h"
#include "tests/catch.h"
#include "tests/channel_models.h"

namespace skald::test {
namespace {

const std::string kMessages = "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]";

struct ChannelFiles : BatchFiles {
  ChannelFiles(const std::vector<std::string>& script, const std::string& requests)
      : BatchFiles(requests) {
    model = folder.write("channels.gguf", channel_gguf({.script = script})).string();
  }

  std::vector<Json> run_all(std::vector<std::string> more = {}) const {
    more.insert(more.end(), kScripted.begin(), kScripted.end());
    const Outcome outcome = run(more);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return results();
  }
};

Json choice(const Json& result) { return result["response"]["body"]["choices"][0]; }

TEST_CASE("the content of an answer is its final message, beside it is reasoning_content") {
  const ChannelFiles files(thinking_script(),
                           "{" + kMessages + ",\"logprobs\":true,\"return_token_ids\":true}\n{" +
                               kMessages + ",\"max_tokens\":5}\n{" + kMessages +
                               ",\"stop\":\" two\"}\n{\"prompt\":\"t\"}\n");
  const std::vector<Json> results = files.run_all();
  REQUIRE(results.size() == 4);
  const Json whole = choice(results[0]);
  CHECK(whole["message"] == Json({{"role", "assistant"},
                                  {"content", "It is 4."},
                                  {"reasoning_content", "Two and two?"}}));
  CHECK(whole["finish_reason"] == "stop");
  CHECK(whole["logprobs"]["content"].size() == thinking_script().size());
  CHECK(whole["token_ids"].size() == thinking_script().size());
  const Json cut = choice(results[1]);
  CHECK(cut["message"]["content"] == "");
  CHECK(cut["message"]["reasoning_content"] == "Two and two?");
  CHECK(cut["finish_reason"] == "length");
  const Json stopped = choice(results[2]);
  CHECK(stopped["message"]["content"] == "");
  CHECK(stopped["message"]["reasoning_content"] == "Two and");
  CHECK(stopped["finish_reason"] == "stop");
  // A completion is not an answer: its text is all text.
  CHECK(choice(results[3])["text"] == "analysisTwo and two?assistantfinalIt is 4.");
}

TEST_CASE("a message to a tool becomes tool_calls, and --resume writes the same bytes") {
  const ChannelFiles files(call_script(),
                           "{\"id\":\"a\"," + kMessages + "}\n{\"id\":\"b\"," + kMessages + "}\n");
  const Json answer = choice(files.run_all()[0]);
  CHECK(answer["finish_reason"] == "tool_calls");
  CHECK(answer["message"]["content"] == "I look.");
  REQUIRE(answer["message"]["tool_calls"].size() == 1);
  const Json call = answer["message"]["tool_calls"][0];
  CHECK(call["type"] == "function");
  CHECK(call["function"] == Json({{"name", "weather"}, {"arguments", "{\"city\":\"Oslo\"}"}}));
  CHECK(call["id"] != choice(files.results()[1])["message"]["tool_calls"][0]["id"]);

  const std::string all = files.text();
  files.folder.write("out.jsonl", all.substr(0, all.size() / 2));
  files.run_all({"--resume"});
  CHECK(files.text() == all);
}

TEST_CASE("batch --plain writes reasoning and tool calls beside the text") {
  const ChannelFiles thinking(thinking_script(), "{" + kMessages + "}\n");
  const Json answer = thinking.run_all({"--plain"})[0];
  CHECK(answer["text"] == "It is 4.");
  CHECK(answer["reasoning"] == "Two and two?");
  CHECK(!answer.contains("tool_calls"));
  const ChannelFiles calling(call_script(), "{" + kMessages + "}\n");
  const Json call = calling.run_all({"--plain"})[0];
  CHECK(call["tool_calls"][0]["function"]["name"] == "weather");
  CHECK(call["finish_reason"] == "tool_calls");
}

TEST_CASE("a response_format constrains the final message alone") {
  const ChannelFiles files(
      thinking_script(),
      "{" + kMessages +
          ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","
          "\"schema\":{\"const\":7}}}}\n");
  const Json answer = choice(files.run_all()[0]);
  CHECK(Json::parse(answer["message"]["content"].get<std::string>()) == 7);
  CHECK(answer["message"]["reasoning_content"] == "Two and two?");
  CHECK(answer["finish_reason"] == "stop");
}

TEST_CASE("thinking between tags stays in the content unless --separate-thinking is given") {
  FlatModel flat;
  flat.extra_piece = "<think>hm</think>\n\nyes";
  BatchFiles files("{" + kMessages + "}\n{\"prompt\":\"a\"}\n");
  files.model = files.folder.write("flat.gguf", flat_gguf(flat)).string();
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--temp", "0", "-l", "259+5", "-n", "1", "--chat-template", "chatml"});
    std::filesystem::remove(files.out);
    std::filesystem::remove(files.out + ".manifest.json");
    CHECK(files.run(more).code == 0);
    return files.results();
  };
  CHECK(choice(run({})[0])["message"] ==
        Json({{"role", "assistant"}, {"content", "<think>hm</think>\n\nyes"}}));
  CHECK(!files.manifest()["settings"].contains("separate_thinking"));
  const std::vector<Json> separate = run({"--separate-thinking"});
  CHECK(choice(separate[0])["message"] ==
        Json({{"role", "assistant"}, {"content", "yes"}, {"reasoning_content", "hm"}}));
  CHECK(choice(separate[1])["text"] == "<think>hm</think>\n\nyes");
  CHECK(files.manifest()["settings"]["separate_thinking"] == true);
}

}  // namespace
}  // namespace skald::test
