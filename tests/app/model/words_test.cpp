// A word of the command line is a model, a text, or an error; a path is never a text.
#include "app/model/words.h"

#include "app/files/path_word.h"
#include "tests/program_output.h"
#include "tests/pty.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

TEST_CASE("a word with .gguf at its end, or with a slash and no space, can only be a path") {
  for (const char* word : {"a.gguf", "A.GGUF", "my model.gguf", "a/b", "/", "./x", "owner/name"}) {
    CAPTURE(word);
    CHECK(looks_like_path(word));
  }
  for (const char* word :
       {"", "a", "gguf", "a.ggu", "Once upon", "1 km/h is slow", "a/\nb", "</s>"}) {
    CAPTURE(word);
    CHECK(!looks_like_path(word));
  }
}

struct Words {
  TempFolder folder;
  std::string model = folder.write("flat.gguf", flat_gguf({})).string();
  std::string text = folder.write("story.txt", "Once").string();

  // The model and the text that the words give.
  std::pair<std::string, std::string> take(const std::vector<std::string>& words,
                                           std::string given = "", bool text_given = false) const {
    const TakenWords taken = take_words(words, given, {.text_given = text_given});
    return {given, taken.text.value_or("-")};
  }
  std::string refused(const std::vector<std::string>& words, std::string given = "") const {
    return error_text([&] { take(words, given); }, Exit::Usage);
  }
};

TEST_CASE("one word is a model if it names one, two words are a model and a text") {
  const Words words;
  using Pair = std::pair<std::string, std::string>;
  CHECK(words.take({}) == Pair{"", "-"});
  CHECK(words.take({"Once"}) == Pair{"", "Once"});
  CHECK(words.take({""}) == Pair{"", ""});
  CHECK(words.take({words.model}) == Pair{words.model, "-"});
  CHECK(has(error_text([&] { words.take({"none.gguf"}); }), "none.gguf: there is no such file"));
  CHECK(words.take({"owner/none"}) == Pair{"owner/none", "-"});
  CHECK(words.take({"llama3.2"}) == Pair{"llama3.2", "-"});  // a short name of the hub
  CHECK(words.take({"qwen3:0.6b"}) == Pair{"qwen3:0.6b", "-"});
  CHECK(words.take({"llama3.2"}, "m.gguf") == Pair{"m.gguf", "llama3.2"});
  CHECK(words.take({"none", "Once"}) == Pair{"none", "Once"});
  CHECK(words.take({"none"}, "", true) == Pair{"none", "-"});
  CHECK(words.take({"Once"}, "m.gguf") == Pair{"m.gguf", "Once"});
  CHECK(words.take({words.folder.path().string() + "/"}).second == "-");
}

TEST_CASE("a word that names a file or looks like a path is refused as a text") {
  const Words words;
  CHECK(has(words.refused({words.text}), "is a file, not a prompt; -f "));
  CHECK(has(words.refused({words.model, words.text}), "is a file, not a prompt; -f "));
  CHECK(has(words.refused({"m", words.folder.path().string()}), "is a folder, not a prompt; -p "));
  CHECK(has(words.refused({"m", "a/b"}), "'a/b' looks like a path, and there is no such file; -p"));
  CHECK(has(words.refused({"m", "b.gguf"}), "looks like a path"));
  CHECK(has(words.refused({"a.gguf"}, "b.gguf"), "the model is given twice: 'a.gguf' and -m b"));
  CHECK(has(words.refused({"", "Once"}), "is empty"));
}

TEST_CASE("run never takes a missing model for a prompt") {
  check_refused(skald({"run", "nonexist.gguf", "Once"}), 3, "nonexist.gguf: there is no such file");
  CHECK(has(run_on_terminal({"run", "nonexist.gguf"}).out, "nonexist.gguf: there is no such file"));
  const Outcome gguf = skald({"run", "nonexist.gguf"});
  CHECK(gguf.code == 3);
  CHECK(gguf.out == "");
  CHECK(has(gguf.err, "nonexist.gguf: there is no such file or folder"));
  CHECK(!has(gguf.err, "-p"));
  const Outcome slash = skald({"run", "either/or"});
  CHECK(slash.code == 3);
  CHECK(slash.out == "");
  CHECK(has(slash.err, "; -p takes it as the prompt\n"));
  CHECK(output({"run", "-p", "either/or", "-n", "0", "--echo"}) == "either/or");
  CHECK(output({"run", "at 5 km/h", "-n", "0", "--echo"}) == "at 5 km/h");
}

TEST_CASE("bench and diff take the model as a word") {
  const std::string model = small_gguf();
  const std::string bench = output({"bench", model, "-p", "8,4", "-n", "2", "-r", "1", "--csv"});
  CHECK(has(bench, "pp8"));
  CHECK(has(bench, "pp4"));
  CHECK(has(output({"bench", "-p", "8", model, "-n", "0", "-r", "1", "--json"}), "kq256"));
  CHECK(has(output({"diff", model, "-p", "Hi"}), "no buffer differs"));
  check_refused(skald({"bench", model, "-m", model}), 2, "the model is given twice");
  check_refused(skald({"diff", model, "-m", model}), 2, "the model is given twice");
}

TEST_CASE("a repeatable flag takes one value each time, so that a word may follow it") {
  TempFolder folder;
  const std::string text = folder.write("a.txt", std::string(2000, 'a')).string();
  const std::vector<std::string> protocol = {"--protocol", "gptq:64", "--chunks", "1", "--json"};
  std::vector<std::string> after{"perplexity", "-f", text, small_gguf()};
  std::vector<std::string> before{"perplexity", small_gguf(), "-f", text};
  after.insert(after.end(), protocol.begin(), protocol.end());
  before.insert(before.end(), protocol.begin(), protocol.end());
  CHECK(output(after) == output(before));
  CHECK(has(output({"perplexity", "--protocol", "doc", "-f", text, "-f", text, small_gguf()}),
            "2 documents"));
  const std::string out = (folder.path() / "out.gguf").string();
  CHECK(output({"quantize", "--type", "q8_0", "--requantize", "--tensor-type", "attn_v=f16",
                "--tensor-type", "attn_k=f16", small_gguf(), out, "--dry-run"}) != "");
}

}  // namespace
}  // namespace skald::test
