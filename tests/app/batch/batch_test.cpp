// skald batch: requests and results.
#include <map>

#include "app/batch/dry_run.h"
#include "app/files/json.h"
#include "tests/app/batch/files.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/recurrent_model.h"

namespace skald::test {
namespace {

const std::vector<std::string> kGreedy{"--temp", "0", "--ignore-eos", "-n", "12"};

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

std::string run_text(const std::string& prompt) {
  return skald(with({"run", "-m", small_gguf(), "-p", prompt}, kGreedy)).out;
}

TEST_CASE("a request in any form gets the text of skald run") {
  const BatchFiles files(
      "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"model\":"
      "\"mine\",\"prompt\":\"Once upon\"}}\n"
      "{\"prompt\":\"Once upon\",\"id\":5}\n"
      "{\"prompt\":[\"Once upon\",\"The sea\"]}\n");
  const Outcome outcome = files.run(kGreedy);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "");
  const std::vector<Json> results = files.results();
  REQUIRE(results.size() == 3);
  const std::string expected = run_text("Once upon");
  CHECK(results[0]["custom_id"] == "a");
  CHECK(results[0]["error"].is_null());
  CHECK(results[0]["response"]["status_code"] == 200);
  const Json& body = results[0]["response"]["body"];
  CHECK(body["object"] == "text_completion");
  CHECK(body["model"] == "mine");
  CHECK(body["choices"][0]["text"] == expected);
  CHECK(body["choices"][0]["finish_reason"] == "length");
  CHECK(body["usage"]["completion_tokens"] == 12);
  CHECK(body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"].get<int>() + 12);
  CHECK(results[1]["custom_id"] == 5);
  CHECK(results[1]["response"]["body"]["choices"][0]["text"] == expected);
  CHECK(results[2]["custom_id"] == "line-3");
  const Json& several = results[2]["response"]["body"]["choices"];
  CHECK(several[0]["text"] == expected);
  CHECK(several[1]["text"] == run_text("The sea"));
  CHECK(several[1]["index"] == 1);
}

TEST_CASE("a sampled text of the id 0 is that of skald run with the same seed") {
  const BatchFiles files(
      "{\"prompt\":\"The dog\",\"id\":\"x\",\"seed\":7,\"max_tokens\":24}\n"
      "{\"prompt\":\"The dog\",\"id\":0,\"seed\":7,\"max_tokens\":24,\"n\":2}\n"
      "{\"prompt\":\"The dog\",\"id\":1,\"seed\":7,\"max_tokens\":24}\n");
  const std::vector<std::string> sampling{"--temp", "1.2", "--top-p", "0.95", "--ignore-eos"};
  REQUIRE(files.run(sampling).code == 0);
  const std::string text =
      skald(with({"run", "-m", small_gguf(), "-p", "The dog", "-s", "7", "-n", "24"}, sampling))
          .out;
  const std::vector<Json> results = files.results();
  const auto of = [&](size_t line, size_t choice) {
    return results[line]["response"]["body"]["choices"][choice]["text"].get<std::string>();
  };
  CHECK(of(1, 0) == text);
  CHECK(of(1, 1) != text);
  CHECK(of(0, 0) != text);
  CHECK(of(2, 0) != text);
}

TEST_CASE("--spec ngram changes no result, and the report counts what was guessed") {
  std::string requests;
  for (int i = 0; i < 6; ++i) {
    requests += "{\"prompt\":\"One fish, two fish, one fish, two fish, one\",\"temperature\":" +
                std::string(i % 2 == 0 ? "0" : "0.8") +
                ",\"max_tokens\":" + std::to_string(20 + 20 * i) +
                ",\"logprobs\":2,\"stop\":[\"zebra\"]}\n";
  }
  BatchFiles plain(requests), guessed(requests);
  plain.model = guessed.model = (source_dir() / "models" / "demo").string();
  const std::vector<std::string> all{"--ignore-eos", "--max-seqs", "2", "--report"};
  const std::string report = (plain.folder.path() / "report.json").string();
  REQUIRE(plain.run(with(all, {report})).code == 0);
  CHECK(!Json::parse(read_file(report))["counts"].contains("guesses"));
  const Outcome outcome = guessed.run(with(all, {report, "--spec", "ngram", "--spec-max", "5"}));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(read_file(guessed.out) == read_file(plain.out));
  const Json counts = Json::parse(read_file(report)).at("counts").at("guesses");
  CHECK(counts["steps"].get<int>() > 0);
  CHECK(counts["tokens"].get<int>() >= counts["right"].get<int>());
  const Outcome unknown = guessed.run({"--spec", "medusa"});
  CHECK(unknown.code == 2);
  CHECK(has(unknown.err, "--spec"));
}

TEST_CASE("batch --text reads a prompt from each line, and --plain writes short results") {
  const BatchFiles files("Once upon\r\n\n{\"prompt\":1\n");
  CHECK(files.run(with(kGreedy, {"--text", "--plain"})).code == 0);
  const std::vector<Json> results = files.results();
  REQUIRE(results.size() == 2);
  CHECK(results[0]["id"] == "line-1");
  CHECK(results[0]["text"] == run_text("Once upon"));
  CHECK(results[1]["id"] == "line-3");
  CHECK(results[1]["text"] == run_text("{\"prompt\":1"));
  CHECK(results[1]["completion_tokens"] == 12);
}

TEST_CASE("messages are rendered by a chat template, and the answer is a message") {
  const BatchFiles files("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"n\":2}\n");
  CHECK(files.run(with(kGreedy, {"--chat-template", "chatml"})).code == 0);
  const Json body = files.results()[0]["response"]["body"];
  CHECK(body["object"] == "chat.completion");
  CHECK(body["choices"][1]["message"]["role"] == "assistant");
  CHECK(body["choices"][0]["message"]["content"] == body["choices"][1]["message"]["content"]);
  CHECK(body["choices"][0]["message"]["content"] != "");
  CHECK(body["usage"]["completion_tokens"] == 24);
}

TEST_CASE("a bad line gets an error object, the other lines are done, and the exit code is 5") {
  const BatchFiles files(
      "{\"id\":\"a\",\"prompt\":\"Once\"}\n"
      "not json\n"
      "{\"id\":\"a\",\"prompt\":\"again\"}\n"
      "{\"id\":\"t\",\"prompt\":\"x\",\"temperature\":-1}\n"
      "{\"id\":\"c\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}\n"
      "{\"id\":\"m\",\"messages\":\"hi\"}\n"
      "{\"id\":\"v\",\"prompt\":[99999]}\n"
      "{\"id\":\"k\",\"prompt\":\"x\",\"logit_bias\":{\"99999\":1}}\n"
      "{\"id\":\"z\",\"prompt\":\"Once\"}\n");
  const Outcome outcome = skald(with(files.arguments(kGreedy), {}));
  CHECK(outcome.code == 5);
  const std::vector<Json> results = files.results();
  REQUIRE(results.size() == 9);
  const auto error = [&](int line) { return results[line]["error"]["message"].get<std::string>(); };
  CHECK(results[1]["custom_id"] == "line-2");
  CHECK(results[1]["error"]["code"] == "invalid_json");
  CHECK(results[1]["response"].is_null());
  CHECK(results[2]["custom_id"] == "line-3");
  CHECK(has(error(2), "the id \"a\" is an earlier line's"));
  CHECK(has(error(3), "temperature"));
  CHECK(has(error(4), "has no chat template"));
  CHECK(results[5]["error"]["code"] == "invalid_request");
  CHECK(has(error(6), "token id 99999 is outside of the model's vocabulary of 512"));
  CHECK(has(error(7), "logit"));
  for (const int good : {0, 8}) CHECK(results[good]["error"].is_null());
  CHECK(files.manifest()["runs"][0]["exit_code"] == 5);
  CHECK(files.manifest()["runs"][0]["counts"]["failed"] == 7);
}

TEST_CASE("a prompt that is too long is an error, is cut, or is skipped, as --on-overflow says") {
  const std::string request = "{\"prompt\":[" + [] {
    std::string ids = "1";
    for (int i = 0; i < 599; ++i) ids += "," + std::to_string(i % 500);
    return ids;
  }() + "],\"max_tokens\":20,\"return_token_ids\":true}\n";
  const std::vector<std::string> base{"--plain", "--temp", "0", "--ignore-eos", "-c", "128"};
  const BatchFiles error(request), cut(request + "{\"prompt\":\"a\"}\n"),
      skipped(request + request);
  CHECK(error.run(base).code == 5);
  CHECK(error.results()[0]["error"]["code"] == "context_length_exceeded");
  CHECK(has(error.results()[0]["error"]["message"].get<std::string>(),
            "the prompt is 600 tokens long and the answer needs at least one, but the context "
            "holds 128"));
  CHECK(cut.run(with(base, {"--on-overflow", "truncate-left"})).code == 0);
  const Json result = cut.results()[0];
  CHECK(result["prompt_tokens"] == 108);
  CHECK(result["truncated_prompt_tokens"] == 492);
  CHECK(result["completion_tokens"] == 20);
  CHECK(!cut.results()[1].contains("truncated_prompt_tokens"));
  CHECK(skipped.run(with(base, {"--on-overflow", "skip"})).code == 0);
  CHECK(skipped.text() == "");
  CHECK(skipped.manifest()["runs"][0]["counts"]["skipped"] == 2);
}

TEST_CASE("echo gives the prompt's log-probabilities, also without a generated token") {
  const BatchFiles files(
      "{\"prompt\":[1,70,80,90],\"max_tokens\":0,\"echo\":true,\"logprobs\":2}\n"
      "{\"prompt\":[1,70,80,90],\"max_tokens\":3,\"echo\":true,\"logprobs\":2,\"temperature\":0}\n"
      "{\"prompt\":[1,70,80],\"max_tokens\":1,\"logprobs\":0,\"logit_bias\":{\"90\":100}}\n");
  CHECK(files.run().code == 0);
  const std::vector<Json> results = files.results();
  const auto logprobs = [&](int line) {
    return results[line]["response"]["body"]["choices"][0]["logprobs"];
  };
  const Json none = logprobs(0), some = logprobs(1);
  CHECK(none["token_ids"] == Json({1, 70, 80, 90}));
  CHECK(none["token_logprobs"].size() == 4);
  CHECK(none["token_logprobs"][0].is_null());
  CHECK(none["top_logprobs"][1].size() == 2);
  CHECK(none["tokens"][1] == "C");  // byte 67 is token 70
  CHECK(some["token_logprobs"].size() == 7);
  for (int i = 1; i < 4; ++i) CHECK(some["token_logprobs"][i] == none["token_logprobs"][i]);
  // The last prompt token's log-probability equals that of generating this token after the others.
  CHECK(logprobs(2)["token_logprobs"][0] == none["token_logprobs"][3]);
  CHECK(results[0]["response"]["body"]["usage"]["completion_tokens"] == 0);
}

TEST_CASE("the log-probabilities of a chat are a list of tokens") {
  const BatchFiles files(
      "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"logprobs\":true,"
      "\"top_logprobs\":2,\"max_tokens\":3}\n");
  CHECK(files.run({"--chat-template", "chatml", "--ignore-eos"}).code == 0);
  const Json content = files.results()[0]["response"]["body"]["choices"][0]["logprobs"]["content"];
  REQUIRE(content.size() == 3);
  CHECK(content[0]["top_logprobs"].size() == 2);
  CHECK(content[0]["logprob"].is_number());
  CHECK(content[0]["bytes"].is_array());
}

TEST_CASE("a stop text ends an answer, however the tokens cut the text") {
  BatchFiles files("");
  files.model = (source_dir() / "models" / "demo").string();
  const std::string whole =
      skald(with({"run", "-m", files.model, "-p", "Once upon a time"}, kGreedy)).out;
  REQUIRE(whole.size() >= 20);
  const std::string stop = whole.substr(11, 3);
  files.folder.write("in.jsonl", dump({{"prompt", "Once upon a time"}, {"stop", stop}}) + "\n");
  CHECK(files.run(with(kGreedy, {"--plain"})).code == 0);
  const Json result = files.results()[0];
  CHECK(result["text"] == whole.substr(0, whole.find(stop)));
  CHECK(result["finish_reason"] == "stop");
  CHECK(result["completion_tokens"].get<int>() < 12);
}

TEST_CASE("an answer follows its response_format") {
  const std::string format =
      "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":"
      "{\"type\":\"object\",\"properties\":{\"yes\":{\"type\":\"boolean\"}},\"required\":[\"yes\"],"
      "\"additionalProperties\":false}}}";
  const BatchFiles files(
      "{\"prompt\":\"a\",\"n\":3,\"max_tokens\":60," + format + "}\n" +
      "{\"prompt\":\"b\",\"max_tokens\":60," + format + "}\n" +
      "{\"prompt\":\"c\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
      "\"n\",\"schema\":{\"type\":\"nothing\"}}}}\n");
  CHECK(files.run({"--plain"}).code == 5);
  const std::vector<Json> results = files.results();
  for (const Json& choice : results[0]["choices"]) {
    CHECK(choice["finish_reason"] == "stop");
    CHECK(Json::parse(choice["text"].get<std::string>())["yes"].is_boolean());
  }
  CHECK(Json::parse(results[1]["text"].get<std::string>())["yes"].is_boolean());
  CHECK(results[2]["error"]["code"] == "invalid_request");
}

TEST_CASE("a request's own settings override the flags") {
  const BatchFiles files(
      "{\"prompt\":\"a\",\"max_tokens\":3,\"temperature\":1,\"seed\":5}\n"
      "{\"prompt\":\"a\",\"id\":\"x\",\"temperature\":1,\"seed\":5}\n"
      "{\"prompt\":\"a\",\"id\":\"y\",\"temperature\":1,\"seed\":5}\n");
  CHECK(files.run({"--plain", "--ignore-eos", "-n", "20"}).code == 0);
  const std::vector<Json> results = files.results();
  CHECK(results[0]["completion_tokens"] == 3);
  CHECK(results[1]["completion_tokens"] == 20);
  CHECK(results[1]["text"] != results[2]["text"]);  // a line's id is part of its seed
}

TEST_CASE(
    "a result does not depend on the line's place, its neighbours, or how many run together") {
  std::vector<std::string> lines;
  for (int i = 0; i < 12; ++i) {
    const Json request = {{"id", i},
                          {"prompt", std::string(static_cast<size_t>(1 + i * i), 'a' + i)},
                          {"temperature", i % 2 ? 1.0 : 0.0},
                          {"max_tokens", 5 + i}};
    lines.push_back(dump(request) + "\n");
  }
  std::string forwards, backwards;
  for (const std::string& line : lines) forwards += line, backwards = line + backwards;
  const auto results = [&](const std::string& requests, const std::vector<std::string>& more) {
    const BatchFiles files(requests);
    CHECK(files.run(with({"--plain", "--ignore-eos"}, more)).code == 0);
    std::map<int, Json> by_id;
    for (const Json& result : files.results()) by_id[result["id"]] = result;
    return by_id;
  };
  const auto expected = results(forwards, {"--max-seqs", "1"});
  CHECK(expected.size() == 12);
  CHECK(results(forwards, {"--max-seqs", "8", "--max-tokens-per-step", "16"}) == expected);
  CHECK(results(backwards, {}) == expected);
  CHECK(results(backwards, {"--unordered"}) == expected);
}

TEST_CASE("a model without a tokenizer reads and writes token ids") {
  const BatchFiles files(
      "{\"prompt_ids\":[1,2,3],\"logprobs\":1}\n{\"prompt\":\"text\"}\n"
      "{\"prompt_ids\":[1,2],\"stop\":\"x\"}\n");
  const std::filesystem::path model = files.folder.path() / "model";
  make_folder(model, "llama-mha");
  std::filesystem::remove(model / "tokenizer.model");
  std::vector<std::string> arguments = files.arguments(kGreedy);
  arguments[2] = model.string();
  CHECK(skald(arguments).code == 5);
  const std::vector<Json> results = files.results();
  const Json choice = results[0]["response"]["body"]["choices"][0];
  CHECK(choice["text"].is_null());
  CHECK(choice["token_ids"].size() == 12);
  CHECK(choice["logprobs"]["tokens"][0].is_null());
  CHECK(has(dump(results[1]["error"]), "the model has no tokenizer"));
  CHECK(has(dump(results[2]["error"]), "stop texts need one"));
  arguments.push_back("--text");
  arguments[6] = (files.folder.path() / "other.jsonl").string();
  CHECK(skald(arguments).code == 2);
}

TEST_CASE("contradictory flags are refused before the model is opened") {
  const BatchFiles files("{\"prompt\":\"a\"}\n");
  const auto refused = [&](const std::vector<std::string>& more, const std::string& message) {
    const Outcome outcome = files.run(more);
    CAPTURE(more, outcome.err);
    CHECK(outcome.code == 2);
    CHECK(has(outcome.err, message));
    CHECK(!std::filesystem::exists(files.out));
  };
  refused({"--lines", "0:4"}, "--lines '0:4'");
  refused({"--devices", "0,0"}, "--devices '0,0': expected the numbers of different GPUs");
  refused({"--devices", "a"}, "--devices 'a'");
  refused({"--devices", "0", "--device", "cpu"}, "not both");
  refused({"--on-overflow", "maybe"}, "--on-overflow");
  refused({"-i", files.in + ".none"}, "is given more than once");
}

TEST_CASE("prompt_logprobs are those of echo, as vLLM writes them, and plain") {
  const BatchFiles files(
      "{\"prompt\":[1,70,80,90],\"max_tokens\":0,\"echo\":true,\"logprobs\":2}\n"
      "{\"prompt\":[1,70,80,90],\"max_tokens\":2,\"prompt_logprobs\":3,\"logprobs\":1}\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":1,"
      "\"prompt_logprobs\":0}\n");
  REQUIRE(files.run({"--temp", "0", "--chat-template", "chatml"}).code == 0);
  const std::vector<Json> results = files.results();
  const auto body = [&](int line) { return results[line]["response"]["body"]; };
  const Json echoed = body(0)["choices"][0]["logprobs"]["token_logprobs"];
  CHECK(!body(0)["choices"][0].contains("prompt_logprobs"));
  const Json choice = body(1)["choices"][0];
  const Json& prompt = choice["prompt_logprobs"];
  REQUIRE(prompt.size() == 4);
  CHECK(prompt[0].is_null());
  int place = 0;
  for (const char* id : {"70", "80", "90"}) {
    const Json& token = prompt[++place];
    CHECK(token[id]["logprob"] == echoed[place]);
    CHECK(token.size() >= 3);
    CHECK(token.size() <= 4);
  }
  CHECK(prompt[1]["70"]["decoded_token"] == "C");
  CHECK(choice["logprobs"]["top_logprobs"][0].size() == 1);
  CHECK(choice["logprobs"]["tokens"].size() == 2);
  CHECK(body(2)["prompt_logprobs"][1].size() == 1);

  const BatchFiles plain("{\"prompt\":[1,70,80,90],\"max_tokens\":1,\"prompt_logprobs\":1}\n");
  REQUIRE(plain.run({"--plain"}).code == 0);
  const Json list = plain.results()[0]["prompt_logprobs"];
  REQUIRE(list.size() == 3);
  CHECK(list[2]["id"] == 90);
  CHECK(list[2]["logprob"] == echoed[3]);
  CHECK(list[2]["top"].size() == 1);
  CHECK(!plain.results()[0].contains("logprobs"));
}

TEST_CASE("a batch may mix prompts and texts for vectors, which are those of skald embed") {
  const BatchFiles files(
      "{\"custom_id\":\"e\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":[\"Once upon\",\"The "
      "sea\"],"
      "\"dimensions\":4}}\n"
      "{\"prompt\":\"Once upon\",\"id\":\"p\"}\n"
      "{\"custom_id\":\"r\",\"url\":\"/v1/rerank\",\"body\":{\"query\":\"The sea\",\"documents\":"
      "[\"Once upon\",\"The sea\"]}}\n"
      "{\"input\":\"Once\",\"dimensions\":100000,\"id\":\"bad\"}\n"
      "{\"input\":\"Once upon\",\"encoding_format\":\"base64\",\"id\":\"b\"}\n");
  for (const std::string pooling : {"last", "mean"}) {
    std::filesystem::remove(files.out);
    CHECK(files.run(with(kGreedy, {"--pooling", pooling})).code == 5);
    const std::vector<Json> results = files.results();
    REQUIRE(results.size() == 5);
    const auto body = [&](size_t line) { return results[line]["response"]["body"]; };
    const Outcome alone = skald({"embed", "-m", small_gguf(), "--plain", "-q", "--device", "cpu",
                                 "-p", "The sea", "--dimensions", "4", "--pooling", pooling});
    CHECK(body(0)["data"][1]["embedding"] == Json::parse(alone.out)["embedding"]);
    CHECK(!body(0)["usage"].contains("completion_tokens"));
    CHECK(body(1)["choices"][0]["text"] == run_text("Once upon"));
    CHECK(body(2)["results"][0]["index"] == 1);
    CHECK(has(results[3]["error"]["message"].get<std::string>(), "field 'dimensions'"));
    CHECK(body(4)["data"][0]["embedding"].is_string());
    // What is done is not computed again.
    CHECK(files.run(with(kGreedy, {"--pooling", pooling, "--resume"})).code == 5);
    CHECK(files.results() == results);
    CHECK(files.manifest()["runs"][1]["counts"]["done_before"] == 4);
  }
}

TEST_CASE("a --report says how fast the run was, and is no other file of the run") {
  const BatchFiles files("{\"prompt\":\"Once\"}\n{\n{\"prompt\":\"The sea\"}\n");
  const std::string path = files.out + ".report";
  CHECK(files.run(with(kGreedy, {"--report", path})).code == 5);
  const Json report = Json::parse(read_file(path));
  CHECK(report["exit_code"] == 5);
  CHECK(report["counts"]["done"] == 2);
  CHECK(report["counts"]["failed"] == 1);
  CHECK(report["counts"]["begun_again"] == 0);
  CHECK(report["counts"]["tokens_out"] == 24);
  CHECK(report["counts"].contains("share_of_floor"));
  CHECK(report["latency_seconds"]["lines"] == 2);
  CHECK(report["latency_seconds"]["p50"] > 0);
  CHECK(report["latency_seconds"]["p95"] == report["latency_seconds"]["max"]);
  CHECK(report["wall_seconds"] >= report["latency_seconds"]["max"]);
  CHECK(report["tokens_per_second"]["out"] > 0);
  CHECK(files.run(with(kGreedy, {"--resume", "--report", files.out})).code == 2);
  CHECK(files.results().size() == 3);
}

TEST_CASE("batch --dry-run counts and estimates, and writes nothing") {
  const BatchFiles files("{\"prompt\":[1,2,3],\"n\":2,\"max_tokens\":7}\n{\n");
  const Outcome outcome = files.run({"--dry-run"});
  CHECK(outcome.code == 5);
  CHECK(has(outcome.out, "lines            2, 1 bad\n"));
  CHECK(has(outcome.out, "prompt tokens    3 (3 to 3 each)\n"));
  CHECK(has(outcome.out, "new tokens       14 at most, in 2 texts\n"));
  CHECK(has(outcome.out, "time  "));
  CHECK(!has(outcome.out, "GPU hours"));
  CHECK(has(outcome.err, "skald: line 2: invalid_json"));
  CHECK(!std::filesystem::exists(files.out));
  CHECK(files.run({"--dry-run", "--report", files.out + ".report"}).code == 5);
  const Json report = Json::parse(read_file(files.out + ".report"));
  CHECK(report["tokens_in"] == 3);
  CHECK(report["most_tokens_out"] == 14);
  CHECK(report["most_seconds"] > 0);
  CHECK(report["most_gpu_hours"] == 0);
}

TEST_CASE("estimates and vectors work for models with recurrent states") {
  const BatchFiles files(
      "{\"prompt\":\"The sea\",\"max_tokens\":200,\"n\":3}\n"
      "{\"input\":\"The sea was blue\",\"dimensions\":2}\n");
  const std::string model = files.folder.write("recurrent.gguf", RecurrentGguf().file()).string();
  const auto run = [&](std::vector<std::string> more) {
    return skald(with({"batch", model, "--device", "cpu", "-i", files.in, "-q"}, more));
  };
  for (const char* sequences : {"1", "2", "64"}) {
    const Outcome estimate = run({"--dry-run", "--max-seqs", sequences});
    CAPTURE(estimate.err);
    CHECK(estimate.code == 0);
    CHECK(has(estimate.out, "new tokens       600 at most"));
    const Outcome outcome = run({"--plain", "--max-seqs", sequences, "-n", "3"});
    CHECK(outcome.code == 0);
    CHECK(json_lines<Json>(outcome.out)[1]["embedding"].size() == 2);
  }
}

TEST_CASE("an estimate counts the hours of all GPUs") {
  BatchEstimate estimate;
  estimate.census = {.lines = 2, .texts = 2, .prompt_tokens = 7200, .most_new_tokens = 3600};
  estimate.rates = {.prompt = 2, .text = 1};
  estimate.devices = 2;
  estimate.gpus = 4;
  CHECK(estimate.seconds() == 3600);
  CHECK(estimate.gpu_hours() == 4);
  CHECK(has(to_text(estimate), "GPU hours        4.00 at most, on 4 GPUs\n"));
}

TEST_CASE("without -q a batch ends with a summary on stderr") {
  const BatchFiles files("{\"prompt\":\"a\"}\n{\n");
  std::vector<std::string> arguments = files.arguments({"-n", "3", "--ignore-eos"});
  std::erase(arguments, "-q");
  const Outcome outcome = skald(arguments);
  CHECK(outcome.code == 5);
  CHECK(has(outcome.err, "skald: 1 line done, 1 failed in 1 s; 2 tokens in"));
  CHECK(has(outcome.err, "the model was busy"));
  CHECK(has(outcome.err, "skald: line 2 failed: invalid_json: "));
  CHECK(!has(outcome.err, "--resume"));
}

}  // namespace
}  // namespace skald::test
