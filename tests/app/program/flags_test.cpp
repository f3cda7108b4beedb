#include <climits>

#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

void check_refused(const std::vector<std::string>& arguments, const std::string& says = "") {
  CAPTURE(arguments);
  check_refused(skald(arguments), 2, says);
}

const char* const kNoNumbers[] = {"1e400", "nan", "inf", "", "0x10", "abc", " 5", "5 ", "1,5"};

TEST_CASE("numeric flags of run refuse invalid values and name the flag") {
  const std::string model = small_gguf();
  const struct {
    const char* flag;
    std::vector<const char*> bad;
  } cases[] = {
      {"--n-predict", {"-2", "-2147483648", "5.0"}},
      {"--seed", {"-2", "-2147483648", "5.0", "99999999999999999999"}},
      {"--temp", {"-1", "-2147483648", "1e39"}},
      {"--top-k", {"-2", "-2147483648", "5.0", "2147483648"}},
      {"--top-p", {"-1", "0", "1.5", "-2147483648"}},
      {"--min-p", {"-1", "1.5", "-2147483648"}},
      {"--typical", {"-1", "0", "1.5", "-2147483648"}},
      {"--repeat-penalty", {"-1", "0", "-2147483648"}},
      {"--repeat-last-n", {"-2", "-2147483648", "5.0"}},
      {"--presence-penalty", {"1e39"}},
      {"--frequency-penalty", {"1e39"}},
      {"--ctx-size", {"-1", "-2147483648", "513", "2147483648", "5.0"}},
      {"--threads", {"-1", "-2147483648", "1025", "5.0"}},
      {"--rows", {"-1", "-2147483648", "65537", "5.0"}},
      {"--logprobs", {"-1", "1001", "5.0"}},
  };
  for (const auto& [flag, bad] : cases) {
    const std::string name = flag;
    const auto with = [&](const std::string& value) {
      return std::vector<std::string>{"run", "-m", model, "-p", "hi", "-n0", name + "=" + value};
    };
    for (const char* value : kNoNumbers) {
      auto arguments = with(value);
      if (name == "--n-predict") arguments.erase(arguments.begin() + 5);
      check_refused(arguments, name);
    }
    for (const char* value : bad) {
      auto arguments = with(value);
      if (name == "--n-predict") arguments.erase(arguments.begin() + 5);
      check_refused(arguments, name == "--ctx-size" ? "" : name);
    }
  }
}

TEST_CASE("numeric flags of bench and diff refuse invalid values") {
  const std::string model = small_gguf();
  for (const char* flag : {"--n-prompt", "--n-gen", "--n-depth", "--sequences", "--repetitions"}) {
    for (const char* value : kNoNumbers) {
      if (std::string(value) == "1,5") continue;  // a valid list
      check_refused({"bench", "-m", model, std::string(flag) + "=" + value}, flag);
    }
    check_refused({"bench", "-m", model, std::string(flag) + "=-1"}, flag);
  }
  for (const char* bad : {"0", "1025", "2.5"}) {
    const std::string says =
        std::string("--sequences: '") + bad + "': expected a whole number from 1 to 1024";
    check_refused({"bench", "-m", model, "-b", std::string("8,") + bad}, says);
    check_refused({"bench", "-m", model, "-b", std::string("8,") + bad + ",1"}, says);
  }
  for (const char* value : kNoNumbers) {
    check_refused({"diff", "-m", model, std::string("--tolerance=") + value}, "--tolerance");
  }
  check_refused({"diff", "-m", model, "--tolerance", "-1"}, "--tolerance");
}

TEST_CASE("a number with a leading 0 is decimal, not octal") {
  const std::string model = small_gguf();
  const auto text = [&](const char* count) {
    return skald({"run", "-m", model, "-p", "hi", "--temp", "0", "--ignore-eos", "-n", count}).out;
  };
  CHECK(text("010") == text("10"));
  CHECK(text("010") != text("8"));
}

TEST_CASE("flags that contradict each other are refused") {
  const std::string model = small_gguf();
  check_refused({"run", "-m", model, "-p", "a", "-f", "b"}, "the prompt is given more than once");
  check_refused({"run", "-m", model, "a", "-p", "b"}, "the prompt is given more than once");
  check_refused({"run", "-m", model, model, "a"}, "the model is given twice");
  check_refused({"run", "-m", model, "-m", model, "a"}, "--model is given more than once");
  check_refused({"run", model, "-m", model, "-p", "a"}, "the model is given twice");
  check_refused({"inspect", model, "-m", model}, "the model is given twice");
  check_refused({"run", "-m", model, "a", "--raw", "--chat"}, "--raw turns the chat template off");
  check_refused({"run", "-m", model, "a", "--raw", "-sys", "b"}, "-sys");
  check_refused({"run", "-m", model, "a", "--chat", "--special"},
                "--special works only without a chat template");
  check_refused({"run", "-m", model, "a", "--logprobs", "1"}, "--logprobs needs --json");
  check_refused({"run", "-m", model, "a", "--json", "--echo"}, "--echo");
  check_refused({"run", "-m", model, "a", "--prompt-cache-ro"}, "needs --prompt-cache FILE");
  check_refused({"run", "-m", model, "a", "--stop", ""}, "--stop");
  check_refused({"bench", "-m", model, "--shape", "smollm2-135m", "--type", "f16"}, "not both");
  check_refused({"bench", "--shape", "smollm2-135m"}, "--shape needs --type");
  check_refused({"bench", "-m", model, "-p", "0", "-n", "0"}, "nothing to measure");
  check_refused({"bench", "-m", model, "-p", "8", "-n", "0", "-c", "7"}, "-c 7");
  check_refused({"bench", "-m", model, "--json", "--csv"}, "--json and --csv are given together");
  check_refused({"bench", "-m", model, "--json", "--markdown"},
                "are given together; leave out one of them");
  check_refused({"bench", "-m", model, "--csv", "--markdown"},
                "are given together; leave out one of them");
  check_refused({"tokenize", model, "a", "-p", "b"}, "the text is given more than once");
  check_refused({"tokenize", model, "a", "--jsonl"}, "--jsonl reads stdin");
  check_refused({"tokenize", model, "a", "--pieces", "--count"},
                "are given together; leave out one of them");
  check_refused({"tokenize", model, "1", "--decode", "--count"}, "--decode");
}

// CLI11's own texts are not what a user should read.
TEST_CASE("wrong flags are refused in skald's words") {
  check_refused({"run", "--json=abc", "x"},
                "--json takes no value, found 'abc'; write --json alone");
  check_refused({"run", "--json=5", "x"}, "--json takes no value, found '5'");
  check_refused({"run", "--json=", "x"}, "--json takes no value, found ''");
  check_refused({"run", "--help=1"}, "--help takes no value");
  check_refused({"selftest", "--json=x"}, "--json takes no value");
  check_refused({"run", "--format", "xml", "x"}, "--format: 'xml': expected json");
  check_refused({"batch", "--on-overflow", "xx"},
                "--on-overflow: 'xx': expected error, truncate-left or skip");
  check_refused({"run", "--flash", "x"}, "unknown flag '--flash'");
  check_refused({"run", "-hf", "a", "-m", "b", "c"}, "are given together; leave out one of them");
  check_refused({"run", "--temp"}, "--temp needs a value");
  check_refused({"run", "--temp", "1", "--temp", "2"}, "--temp is given more than once");
  const std::string prompt = skald({"run", "-n", "0", "--echo", "-p", "--json=5"}).out;
  CHECK(prompt.starts_with("--json=5"));  // a value may look like a flag
}

TEST_CASE("an empty path is an error, never the bundled model or stdin") {
  check_refused({"run", "-m", "", "hi"}, "--model");
  check_refused({"run", "-m", small_gguf(), "-f", ""}, "--file");
  check_refused({"inspect", ""}, "is empty");
  check_refused({"tokenize", "", "hi"}, "is empty");
  check_refused({"bench", "-m", ""}, "--model");
}

TEST_CASE("a wrong --logit-bias is refused") {
  const std::string model = small_gguf();
  for (const char* bias :
       {"", "abc", "5", "-5", "5+", "5+x", "5+nan", "x+1", "512+1", "5+1,6+1", "99999999999+1"}) {
    CAPTURE(bias);
    check_refused({"run", "-m", model, "-p", "a", "-n", "1", std::string("--logit-bias=") + bias});
  }
  check_refused({"run", "-m", model, "-p", "a", "-n", "1", "-l", "5+inf", "-l", "5-inf"});
}

}  // namespace
}  // namespace skald::test
