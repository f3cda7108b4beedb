// skald run --chat with a model that answers in channels, and thinking between tags.
#include <nlohmann/json.hpp>

#include "tests/channel_models.h"
#include "tests/program_output.h"
#include "tests/pty.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

struct ChannelModel : TempFolder {
  explicit ChannelModel(const std::vector<std::string>& script) {
    model = write("channels.gguf", channel_gguf({.script = script})).string();
  }

  std::vector<std::string> run(const std::vector<std::string>& more,
                               const std::string& prompt = "Hi", int count = 40) const {
    std::vector<std::string> all{"run", "-m",  model, "-t", "1", "-n", std::to_string(count),
                                 "-p",  prompt};
    all.insert(all.end(), kScripted.begin(), kScripted.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Json json(std::vector<std::string> more = {}, int count = 40) const {
    more.insert(more.end(), {"--chat", "--json"});
    return Json::parse(silent_output(run(more, "Hi", count)));
  }

  std::string model;
};

TEST_CASE("run --chat writes the final message to a pipe, and the thinking to a terminal too") {
  const ChannelModel model(thinking_script());
  CHECK(silent_output(model.run({"--chat"})) == "It is 4.");
  Terminal terminal({model.run({"--chat"}), ""});
  CHECK(has(terminal.finish().out, "\x1b[2mTwo and\x1b[0m\x1b[2m two?\x1b[0m\r\n\r\nIt is 4.\r\n"));
}

TEST_CASE("without --chat, run writes all text that the model writes") {
  const ChannelModel model(thinking_script());
  CHECK(silent_output(model.run({}, "t")) == "analysisTwo and two?assistantfinalIt is 4.");
}

TEST_CASE("run --json has the thinking beside the text, and all tokens") {
  const ChannelModel model(thinking_script());
  const Json json = model.json();
  CHECK(json["text"] == "It is 4.");
  CHECK(json["reasoning"] == "Two and two?");
  CHECK(json["ids"].size() == thinking_script().size());
  CHECK(json["finish_reason"] == "stop");
  CHECK(!json.contains("tool_calls"));
  const Json cut = model.json({}, 5);
  CHECK(cut["text"] == "");
  CHECK(cut["reasoning"] == "Two and two?");
  CHECK(cut["finish_reason"] == "length");
  const Json call = ChannelModel(call_script()).json();
  CHECK(call["text"] == "I look.");
  CHECK(call["tool_calls"] ==
        Json::parse(R"([{"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}])"));
  CHECK(!call.contains("reasoning"));
}

TEST_CASE("run --chat writes a tool call as text") {
  CHECK(silent_output(ChannelModel(call_script()).run({"--chat"})) ==
        "weather({\"city\":\"Oslo\"})");
}

TEST_CASE("a grammar of run --chat constrains the final message alone") {
  const Json json = ChannelModel(thinking_script()).json({"--regex", "yes"});
  CHECK(json["text"] == "yes");
  CHECK(json["reasoning"] == "Two and two?");
  CHECK(json["finish_reason"] == "stop");
}

TEST_CASE("run --chat dims thinking between tags on a terminal, and writes it to a pipe") {
  FlatModel flat;
  flat.extra_piece = "<think>hm</think>yes";
  TempFolder folder;
  const std::string model = folder.write("flat.gguf", flat_gguf(flat)).string();
  const std::vector<std::string> arguments{"run",   "-m", model, "--temp", "0",  "-l",
                                           "259+5", "-n", "1",   "-p",     "Hi", "--chat-template",
                                           "chatml"};
  CHECK(silent_output(arguments) == "<think>hm</think>yes");
  Terminal terminal({arguments, ""});
  const std::string shown = terminal.finish().out;
  CAPTURE(shown);
  CHECK(has(shown, "\x1b[2m<think>\x1b[0m\x1b[2mhm</think>\x1b[0myes\r\n"));
}

}  // namespace
}  // namespace skald::test
