#include "app/files/json.h"
#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;

Arguments greedy(const Arguments& more) {
  Arguments all{"run", "-m", small_gguf(), "--temp", "0", "--ignore-eos", "-n", "20"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string text_of(const Arguments& more, const std::string& input = "") {
  return silent_output(greedy(more), input);
}

TEST_CASE("a prompt given as an argument, with -p, with -f or through stdin gives the same text") {
  TempFolder folder;
  const std::string file = folder.write("prompt.txt", "Once upon\n").string();
  const std::string text = text_of({"Once upon"});
  CHECK(text != "");
  CHECK(text_of({"-p", "Once upon"}) == text);
  CHECK(text_of({"-f", file}) == text);
  CHECK(text_of({"-f", "-"}, "Once upon\n") == text);
  CHECK(text_of({}, "Once upon") == text);
  CHECK(text_of({"-p", "Once upon", "-e"}) == text);
  CHECK(text_of({"-e", "\\x4fnce\\x20upon"}) == text);
  CHECK(text_of({"--prompt=Once upon"}) == text);
  const Outcome model_first =
      skald({"run", small_gguf(), "Once upon", "--temp", "0", "--ignore-eos", "-n", "20"});
  CHECK(model_first.out == text);
}

TEST_CASE("a prompt may begin with any character") {
  for (const char* prompt :
       {"[a, b]", "[INST] hi [/INST]", "[]", "a,b", "{}", "bench", "run", "\"a\"", "'a'", "a=b",
        "@f", "- item", "-hello", "--help", "%s", "/a", "!", "\\n", "  two  "}) {
    CAPTURE(prompt);
    const std::vector<std::string> base{"run", "-m", small_gguf(), "-n", "0", "--echo"};
    auto with_flag = base, with_equals = base, as_word = base;
    with_flag.insert(with_flag.end(), {"-p", prompt});
    with_equals.push_back(std::string("--prompt=") + prompt);
    as_word.insert(as_word.end(), {"--", prompt});
    CHECK(skald(with_flag).out == prompt);
    CHECK(skald(with_equals).out == prompt);
    const bool path = std::string_view(prompt) == "/a";  // needs -p
    CHECK(skald(as_word).out == (path ? "" : prompt));
    CHECK(skald(as_word).code == (path ? 2 : 0));
  }
}

TEST_CASE("the bundled model tells a story without any flag") {
  const Outcome story = skald({"run", "Once upon a time", "-n", "20", "-s", "1"});
  CAPTURE(story.err);
  CHECK(story.code == 0);
  CHECK(story.out.size() > 20);
  CHECK(story.out.front() == ',');
  CHECK(has(skald({"inspect"}).out, "family      Llama"));
  CHECK(skald({"diff"}).code == 0);
}

TEST_CASE("a prompt may be empty or binary") {
  const std::string empty = text_of({""});
  CHECK(text_of({"-p", ""}) == empty);
  CHECK(text_of({}, "") == empty);
  CHECK(text_of({}, "\n") == empty);
  CHECK(text_of({}, std::string("a\0b", 3)) == text_of({"-e", "a\\0b"}));
  CHECK(text_of({}, std::string("a\0b", 3)) != text_of({"a"}));
}

TEST_CASE("bytes in a prompt that are not UTF-8 are replaced, with a notice") {
  const std::string replaced = text_of({}, "a\xEF\xBF\xBD\xEF\xBF\xBD b");
  const Outcome outcome = skald(greedy({}), "a\xff\xfe b");
  CHECK(outcome.code == 0);
  CHECK(outcome.out == replaced);
  CHECK(outcome.err ==
        "skald: the prompt is not UTF-8: 2 bytes were replaced by U+FFFD, the first after 1 "
        "bytes\n");
  CHECK(has(skald(greedy({"a\xff"})).err, "1 byte was replaced"));
  std::string all;
  for (int byte = 0; byte < 256; byte += 3) all += static_cast<char>(byte);
  CHECK(skald(greedy({}), all).code == 0);
}

TEST_CASE("an unknown escape is an error") {
  for (const char* prompt : {"a\\q", "a\\", "\\x4", "\\xzz"}) {
    const Outcome outcome = skald(greedy({"-e", prompt}));
    CHECK(outcome.code == 2);
    CHECK(has(outcome.err, "unknown escape"));
  }
}

TEST_CASE("stdout in a pipe has the new text alone, and --stats goes to stderr") {
  const std::string text = text_of({"Once"});
  const Outcome stats = skald(greedy({"Once", "--stats"}));
  CHECK(stats.out == text);
  CHECK(has(stats.err, "; seed "));
  CHECK(has(stats.err, "2 prompt tokens, first token after"));
  CHECK(has(stats.err, "20 new tokens"));
  CHECK(has(stats.err, " GB/s; "));
  CHECK(has(stats.err, "iB; seed "));
  CHECK(stats.err.find('\n') == stats.err.size() - 1);
  CHECK(text_of({"Once", "--echo"}) == "Once" + text);
}

TEST_CASE("guessed tokens change no text") {
  const char* prompt =
      "The cat sat on the mat. The dog sat on the mat. The cat sat on the mat. The";
  for (const char* temperature : {"0", "1"}) {
    const auto with = [&](std::vector<std::string> more) {
      // The bundled model: random ones repeat little.
      Arguments args = {"run", "--device", "cpu", "-p",     prompt,      "-n",
                        "120", "-s",       "1",   "--temp", temperature, "--json"};
      args.insert(args.end(), more.begin(), more.end());
      return Json::parse(skald(args).out);
    };
    const Json plain = with({}), guessed = with({"--spec", "ngram"});
    CHECK(guessed["ids"] == plain["ids"]);
    CHECK(guessed["text"] == plain["text"]);
    CHECK(!plain.contains("guesses"));
    const Json& counts = guessed["guesses"];
    CHECK(counts["steps"].get<int>() > 0);
    CHECK(counts["tokens"].get<int>() >= counts["steps"].get<int>());
    CHECK(counts["right"].get<int>() <= counts["tokens"].get<int>());
  }
  const Outcome stats = skald({"run", "--device", "cpu", "-p", prompt, "-n", "120", "--temp", "0",
                               "--spec", "ngram", "--spec-max", "2", "--stats"});
  CHECK(has(stats.err, " guessed "));
  CHECK(skald(greedy({prompt, "--spec", "other"})).code == 2);
  CHECK(skald(greedy({prompt, "--spec", "ngram", "--spec-max", "0"})).code == 2);
}

TEST_CASE("the same seed gives the same text, another seed another text") {
  const auto with_seed = [](const char* seed) {
    return skald({"run", "-m", small_gguf(), "-p", "Once", "-n", "30", "-s", seed}).out;
  };
  CHECK(with_seed("1") == with_seed("1"));
  CHECK(with_seed("1") != with_seed("2"));
  CHECK(with_seed("-1") != with_seed("-1"));
}

TEST_CASE("the text does not depend on threads and rows") {
  const std::string text = text_of({"Once upon a time there was", "-t", "1"});
  for (const char* threads : {"2", "8"}) {
    CHECK(text_of({"Once upon a time there was", "-t", threads}) == text);
  }
  for (const char* rows : {"1", "7", "512"}) {
    CHECK(text_of({"Once upon a time there was", "--rows", rows}) == text);
  }
}

TEST_CASE("run -n 0 generates nothing, and the prompt may then fill the context") {
  CHECK(skald({"run", "-m", small_gguf(), "-p", "Once", "-n", "0"}).out == "");
  CHECK(skald({"run", "-m", small_gguf(), "-p", "", "-c", "1", "-n", "0"}).code == 0);
  CHECK(skald({"run", "-m", small_gguf(), "-p", "Once", "-c", "2", "-n", "0"}).code == 0);
}

TEST_CASE("a prompt longer than the context is an error that gives both lengths") {
  const Outcome exact = skald({"run", "-m", small_gguf(), "-p", "Once", "-c", "2", "-n", "1"});
  CHECK(exact.code == 1);
  CHECK(has(exact.err,
            "the prompt needs 2 tokens and the answer at least 1, but the context "
            "holds 2; shorten it or ask for more with -c"));
  const Outcome longer = skald({"run", "-m", small_gguf(), "-c", "1"}, "Once");
  CHECK(longer.code == 1);
  CHECK(longer.out == "");
  const Outcome model = skald({"run", "-m", small_gguf()}, std::string(5000, 'q'));
  CHECK(model.code == 1);
  CHECK(has(model.err, "but the context holds 512; shorten it\n"));
}

TEST_CASE("a context that fills up before the requested number of tokens is reported") {
  for (const char* count : {"-1", "100"}) {
    const Outcome outcome =
        skald({"run", "-m", small_gguf(), "-p", "Once", "-c", "12", "-n", count, "--ignore-eos"});
    CHECK(outcome.code == 0);
    CHECK(outcome.err == "skald: stopped after 10 tokens: the context of 12 tokens is full\n");
  }
  const Outcome exact =
      skald({"run", "-m", small_gguf(), "-p", "Once", "-c", "12", "-n", "10", "--ignore-eos"});
  CHECK(exact.err == "");
}

TEST_CASE("the text ends at the end token, unless --ignore-eos is given") {
  TempFolder folder;
  const std::string model = folder.write("flat.gguf", flat_gguf({})).string();
  const Outcome ended = skald({"run", "-m", model, "a", "-n", "5", "-l", "2+5", "--temp", "0"});
  CHECK(ended.out == "");
  CHECK(ended.code == 0);
  const Outcome ignored = skald({"run", "-m", model, "a", "-n", "5", "-l", "2+5", "-l", "259+1",
                                 "--temp", "0", "--ignore-eos"});
  CHECK(ignored.out == "xxxxx");
}

TEST_CASE("a pipe gets control characters unchanged, and U+FFFD for broken UTF-8") {
  TempFolder folder;
  const std::string model = folder.write("flat.gguf", flat_gguf({})).string();
  const std::string escape = std::to_string(kFirstByteToken + 0x1b) + "+5";
  CHECK(skald({"run", "-m", model, "a", "-n", "3", "-l", escape, "--temp", "0"}).out ==
        "\x1b\x1b\x1b");
  const std::string half = std::to_string(kFirstByteToken + 0xc3) + "+5";
  CHECK(skald({"run", "-m", model, "a", "-n", "2", "-l", half, "--temp", "0"}).out ==
        "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("weights that are NaN give an error that says so") {
  TempFolder folder;
  FlatModel broken;
  broken.embedding = NAN;
  const std::string model = folder.write("nan.gguf", flat_gguf(broken)).string();
  const Outcome outcome = skald({"run", "-m", model, "a", "-n", "5"});
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "logits are not finite"));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
}

TEST_CASE("a Hugging Face model can be named by its folder or by one of its files") {
  TempFolder folder;
  make_folder(folder.path() / "model", "llama-mha");
  const auto run = [&](const std::string& path) {
    const Outcome outcome = skald({"run", "-m", path, "ab", "-n", "5", "--temp", "0"});
    CAPTURE(path, outcome.err);
    CHECK(outcome.code == 0);
    return outcome.out;
  };
  const std::string path = (folder.path() / "model").string();
  const std::string text = run(path);
  CHECK(run(path + "/") == text);
  CHECK(run(path + "/config.json") == text);
  CHECK(run(path + "/model.safetensors") == text);
}

}  // namespace
}  // namespace skald::test
