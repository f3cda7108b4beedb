#include "app/batch/request.h"

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

std::vector<std::string> unknown_fields;

BatchRequest read(const std::string& text) {
  unknown_fields.clear();
  return read_batch_request(parse_line(text), {}, unknown_fields);
}

std::string problem(const std::string& text) {
  try {
    read(text);
  } catch (const LineError& error) {
    return error.problem().code + ": " + error.problem().message;
  }
  return "";
}

TEST_CASE("a line in OpenAI's form is read from its body") {
  const BatchRequest request =
      read(R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"m",)"
           R"("prompt":["x","y"],"max_tokens":7,"n":2,"echo":true,"logprobs":3,"stop":["a","b"],)"
           R"("temperature":0.5,"top_p":0.25,"seed":9,"logit_bias":{"5":-100},"user":"u"}})");
  CHECK(!request.chat);
  CHECK(request.model == "m");
  REQUIRE(request.prompts.size() == 2);
  CHECK(request.prompts[1].text == "y");
  CHECK(request.max_tokens == 7);
  CHECK(request.samples == 2);
  CHECK(request.echo);
  CHECK(request.logprobs);
  CHECK(request.params.top_logprobs == 3);
  CHECK(request.stops == std::vector<std::string>{"a", "b"});
  CHECK(request.params.temperature == 0.5f);
  CHECK(request.params.top_p == 0.25f);
  CHECK(request.params.seed == 9);
  CHECK(request.params.logit_bias == std::vector<std::pair<int32_t, float>>{{5, -100.0f}});
  CHECK(unknown_fields.empty());
  CHECK(read(R"({"url":"/v1/chat/completions","body":{"messages":[]}})").chat);
}

TEST_CASE("a line may have a bias for each token of a large vocabulary") {
  constexpr int32_t kKeys = 100'000;
  std::string biases;
  for (int32_t id = 0; id < kKeys; ++id) {
    biases += (id > 0 ? ",\"" : "\"") + std::to_string(id) + "\":-0.5";
  }
  const BatchRequest request = read(R"({"prompt":"x","logit_bias":{)" + biases + "}}");
  REQUIRE(request.params.logit_bias.size() == size_t{kKeys});
  CHECK(request.params.logit_bias.back() == std::pair<int32_t, float>(kKeys - 1, -0.5f));
  CHECK_NOTHROW(validate(request.params, 128'000));
}

TEST_CASE("a plain line is the body itself") {
  const BatchRequest text = read(R"({"id":"a","prompt":"x","stop":"end","max_tokens":null})");
  CHECK(text.prompts[0].text == "x");
  CHECK(!text.max_tokens);
  CHECK(text.stops == std::vector<std::string>{"end"});
  CHECK(read(R"({"prompt_ids":[1,2]})").prompts[0].ids == std::vector<int32_t>{1, 2});
  CHECK(read(R"({"prompt":[1,2]})").prompts[0].ids == std::vector<int32_t>{1, 2});
  CHECK(read(R"({"prompt":[[1],[2,3]]})").prompts[1].ids == std::vector<int32_t>{2, 3});
  const BatchRequest chat = read(
      R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"function":{"name":"f"}}],"max_completion_tokens":3,)"
      R"("logprobs":true,"top_logprobs":2})");
  CHECK(chat.chat);
  CHECK(chat.conversation ==
        R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"function":{"name":"f"}}]})");
  CHECK(chat.max_tokens == 3);
  CHECK((chat.logprobs && chat.params.top_logprobs == 2));
  CHECK(read(R"({"prompt":"x","response_format":{"type":"json_object"}})").response_format != "");
  CHECK(read(R"({"prompt":"x","response_format":{"type":"text"}})").response_format == "");
}

TEST_CASE("unknown fields are listed") {
  read(R"({"prompt":"x","colour":"red","top_k":5})");
  CHECK(unknown_fields == std::vector<std::string>{"colour"});
  read(R"({"prompt":"x","body":null,"url":null})");
  CHECK(unknown_fields.empty());
}

TEST_CASE("an error in a line names the field") {
  for (const auto& [line, message] : std::vector<std::pair<std::string, std::string>>{
           {"{", "invalid_json: is no JSON: column"},
           {"", "invalid_json: is no JSON"},
           {std::string("{\"prompt\":\"a\0b\"}", 16), "invalid_json: is no JSON"},
           {"{\"prompt\":\"\xff\"}", "invalid_json: is no JSON"},
           {"[1]", "invalid_json: expected an object, found [1]"},
           {std::string(100000, '['), "invalid_json: lists and objects lie in each other"},
           {"{}", "invalid_request: expected one of 'prompt', 'messages' and 'prompt_ids'"},
           {R"({"prompt":"a","messages":[]})", "expected one of"},
           {R"({"prompt":5})", "field 'prompt': expected a text, a list of token ids"},
           {R"({"prompt":[]})", "field 'prompt'"},
           {R"({"prompt":["a",[1]]})", "field 'prompt'"},
           {R"({"prompt":[1,-2]})", "field 'prompt': expected token ids, found -2"},
           {R"({"prompt_ids":"a"})", "field 'prompt_ids': expected a list"},
           {R"({"prompt_ids":[1.5]})", "field 'prompt_ids': expected token ids, found 1.5"},
           {R"({"prompt":"a","max_tokens":-1})", "field 'max_tokens': expected a whole number"},
           {R"({"prompt":"a","max_tokens":"7"})", "field 'max_tokens'"},
           {R"({"prompt":"a","n":0})", "field 'n': expected a whole number from 1 to"},
           {R"({"prompt":"a","temperature":"hot"})", "field 'temperature': expected a number"},
           {R"({"prompt":"a","temperature":1e300})", "field 'temperature'"},
           {R"({"prompt":"a","echo":1})", "field 'echo': expected true or false, found 1"},
           {R"({"prompt":"a","seed":99999999999999999999})", "field 'seed'"},
           {R"({"prompt":"a","stop":[""]})", "field 'stop': expected texts that are not empty"},
           {R"({"prompt":"a","stop":5})", "field 'stop'"},
           {R"({"prompt":"a","logit_bias":[1]})", "field 'logit_bias'"},
           {R"({"prompt":"a","logit_bias":{"x":1}})", "field 'logit_bias'"},
           {R"({"prompt":"a","response_format":"json"})", "field 'response_format'"},
           {R"({"prompt":"a","response_format":{"type":"xml"}})", "field 'response_format'"},
           {R"({"prompt":"a","stream":true})", "field 'stream': a batch gives whole results"},
           {R"({"prompt":"a","best_of":3})", "field 'best_of'"},
           {R"({"prompt":"a","suffix":"b"})", "field 'suffix'"},
           {R"({"messages":[],"echo":true})", "field 'echo': is for prompts"},
           {R"({"messages":[],"logprobs":false,"top_logprobs":2})", "top_logprobs without"},
           {R"({"url":"/v1/models","body":{}})", "field 'url': expected /v1/chat"},
           {R"({"url":"/v1/embeddings","body":{}})", "expected 'input'"},
           {R"({"url":"/v1/rerank","body":{"query":"a"}})", "'documents'"},
           {R"({"prompt":"a","prompt_logprobs":-1})", "field 'prompt_logprobs'"},
           {R"({"method":"GET","url":"/v1/completions","body":{}})", "field 'method'"},
           {R"({"url":"/v1/completions","body":[]})", "field 'body': expected an object"},
           {R"({"url":"/v1/completions","body":{"messages":[]}})", "takes 'prompt'"},
           {R"({"url":"/v1/chat/completions","body":{"prompt":"a"}})", "takes 'messages'"},
       }) {
    CAPTURE(line.substr(0, 200));
    CAPTURE(problem(line));
    CHECK(has(problem(line), message));
  }
}

TEST_CASE("an id is a string or a whole number") {
  const auto id = [](const std::string& line) { return line_id(parse_line(line)); };
  CHECK(id(R"({"custom_id":"a","id":"b"})") == "\"a\"");
  CHECK(id(R"({"id":17})") == "17");
  CHECK(!id(R"({"id":null})"));
  CHECK(!id("{}"));
  CHECK_THROWS_AS(id(R"({"id":1.5})"), LineError);
  CHECK_THROWS_AS(id(R"({"id":["a"]})"), LineError);
}

}  // namespace
}  // namespace skald::test
