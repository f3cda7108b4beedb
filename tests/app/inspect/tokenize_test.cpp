#include <fcntl.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/json_lines.h"
#include "tests/program_output.h"
#include "tests/pty.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

std::string bpe() { return (data_dir() / "tokenizer" / "bpe.model").string(); }

TEST_CASE("the text may be an argument, -p, -f or stdin, and the model any with a tokenizer") {
  TempFolder folder;
  const std::string file = folder.write("text", "Once upon\n").string();
  CHECK(silent_output({"tokenize", small_gguf(), "Once upon"}) == "1 403 407\n");
  CHECK(silent_output({"tokenize", "-m", small_gguf(), "Once upon"}) == "1 403 407\n");
  CHECK(silent_output({"tokenize", small_gguf(), "-p", "Once upon"}) == "1 403 407\n");
  CHECK(silent_output({"tokenize", small_gguf(), "-f", file}) == "1 403 407\n");
  CHECK(silent_output({"tokenize", small_gguf()}, "Once upon\n") == "1 403 407\n");
  CHECK(silent_output({"tokenize", small_gguf(), "Once upon", "--no-bos"}) == "403 407\n");
  CHECK(silent_output({"tokenize", small_gguf(), "Once upon", "--count"}) == "3\n");
  CHECK(silent_output({"tokenize", small_gguf(), "Once", "--pieces"}) == "1\t<s>\n403\t▁Once\n");
  CHECK(silent_output({"tokenize", small_gguf(), ""}) == "1\n");

  make_folder(folder.path() / "model", "llama-mha");
  const std::string path = (folder.path() / "model").string();
  const std::string ids = silent_output({"tokenize", path, "a b"});
  CHECK(silent_output({"tokenize", path + "/config.json", "a b"}) == ids);
  CHECK(silent_output({"tokenize", path + "/tokenizer.model", "a b"}) == ids);
}

TEST_CASE("tokenize takes a single word as the text for the bundled model, unless it is a model") {
  const std::string demo = (source_dir() / "models" / "demo").string();
  CHECK(silent_output({"tokenize", "Once upon a time"}) ==
        silent_output({"tokenize", demo, "Once upon a time"}));
  CHECK(silent_output({"tokenize", "Once"}) == silent_output({"tokenize", demo, "Once"}));
  CHECK(silent_output({"tokenize", demo + "/tokenizer.model"}, "Once") ==
        silent_output({"tokenize", "Once"}));
  CHECK(silent_output({"tokenize", "-p", "Once", demo}) == silent_output({"tokenize", "Once"}));
  check_refused(skald({"tokenize", "none.gguf"}), 3, "there is no such file");
  check_refused(skald({"tokenize", source_dir().string() + "/README.md"}), 2,
                "is a file, not a text; -f ");
}

TEST_CASE("a decoded text ends with a newline of its own only on a terminal") {
  CHECK(output({"tokenize", small_gguf(), "--decode", "403"}) == "Once");
  CHECK(run_on_terminal({"tokenize", small_gguf(), "--decode", "403"}).out == "Once\r\n");
}

TEST_CASE("control tokens in the text are recognized only with --special") {
  const std::string plain = silent_output({"tokenize", small_gguf(), "</s>", "--no-bos"});
  CHECK(plain != "2\n");
  CHECK(has(" " + silent_output({"tokenize", small_gguf(), "</s>", "--no-bos", "--special"}),
            " 2\n"));
}

TEST_CASE("tokenize --decode gives the text back") {
  for (const std::string text : {"Once upon a time", "  spaces  ", "tab\tand\nline", "ä€😀"}) {
    const std::string ids = silent_output({"tokenize", bpe(), text});
    CHECK(silent_output({"tokenize", bpe(), "--decode", ids}) == text);
    CHECK(silent_output({"tokenize", bpe(), "--decode"}, ids) == text);
  }
  CHECK(silent_output({"tokenize", small_gguf(), "--decode", "[1, 403,407]"}) == "Once upon");
  CHECK(silent_output({"tokenize", small_gguf(), "--decode", ""}) == "");
}

TEST_CASE("wrong ids are refused") {
  for (const char* ids :
       {"abc", "1 x", "[1,2]x", "1.5", "512", "-1", "99999999999", "99999999999999999999"}) {
    const Outcome outcome =
        skald({"tokenize", small_gguf(), std::string("--decode"), "-p", std::string(" ") + ids});
    CAPTURE(ids, outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.out == "");
  }
}

TEST_CASE("tokenize --jsonl treats each line alone, and a bad line does not affect the others") {
  const std::string input =
      "\"Once\"\n"
      "not json\n"
      "\n"
      "42\r\n"
      "\"upon\\n\"\r\n"
      "\"\xff\"\n"
      "\"\"";
  const Outcome outcome = skald({"tokenize", small_gguf(), "--jsonl"}, input);
  CHECK(outcome.code == 5);
  const std::vector<Json> results = json_lines(outcome.out);
  REQUIRE(results.size() == 6);
  CHECK(results[0] == Json({1, 403}));
  CHECK(results[1] == Json({{"error", "not valid JSON"}, {"line", 2}}));
  CHECK(results[2] == Json({{"error", "expected a JSON string"}, {"line", 4}}));
  CHECK(results[3][0] == 1);
  CHECK(results[4]["line"] == 6);
  CHECK(results[5] == Json::array({1}));
  CHECK(has(outcome.err, "skald: line 2: not valid JSON\nskald: line 4: "));
}

TEST_CASE("tokenize --jsonl --decode treats each line alone") {
  const std::string input =
      "[1,403,407]\n[]\n[1,1.5]\n[99999999999]\n[-1]\n[18446744073709551615]\n"
      "[512]\n\"a\"\n[403]\n";
  const Outcome outcome = skald({"tokenize", small_gguf(), "--jsonl", "--decode"}, input);
  CHECK(outcome.code == 5);
  const std::vector<Json> results = json_lines(outcome.out);
  REQUIRE(results.size() == 9);
  CHECK(results[0] == "Once upon");
  CHECK(results[1] == "");
  for (size_t i = 2; i < 8; ++i) CHECK(results[i].contains("error"));
  CHECK(results[8] == "Once");
}

TEST_CASE("the exit code is 0 when all lines are good") {
  CHECK(silent_output({"tokenize", small_gguf(), "--jsonl"}, "\"a\"\n\n\"b\"\n").size() > 2);
  CHECK(silent_output({"tokenize", small_gguf(), "--jsonl"}, "") == "");
}

TEST_CASE("a pipe or a device is refused as a tokenizer") {
  TempFolder folder;
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    const Outcome outcome = skald({"tokenize", path, "hi"});
    CHECK(outcome.code == 3);
    CHECK(has(outcome.err, "is neither a file nor a folder"));
  }
}

}  // namespace
}  // namespace skald::test
