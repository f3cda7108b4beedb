// skald run and chat with a draft model: the text stays the same, reports, and what goes wrong.
#include <algorithm>

#include "app/files/json.h"
#include "app/generate/guessing.h"
#include "tests/app/chat/models.h"
#include "tests/program_output.h"
#include "tests/recurrent_model.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;

std::string demo() { return (source_dir() / "models" / "demo").string(); }

Json report(const std::string& model, const Arguments& more) {
  Arguments all{"run", "--device", "cpu", "-m", model,    "-p", "Once upon a time",
                "-n",  "100",      "-s",  "1",  "--json", "-t", "1"};
  all.insert(all.end(), more.begin(), more.end());
  const Outcome outcome = skald(all);
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

TEST_CASE("a draft model changes no text, whichever it is") {
  for (const std::string& model : {demo(), small_gguf()}) {
    for (const Arguments& how : {Arguments{"--temp", "0"}, Arguments{"--repeat-penalty", "1.3"},
                                 Arguments{"--stop", "and", "--stop", "e"}}) {
      const Json plain = report(model, how);
      CHECK(!plain.contains("draft"));
      for (const std::string& draft : {demo(), small_gguf()}) {
        CAPTURE(model, draft, how);
        Arguments with = how;
        with.insert(with.end(), {"-md", draft});
        for (const char* by : {"draft", "auto"}) {
          Arguments spec = with;
          spec.insert(spec.end(), {"--spec", by});
          const Json guessed = report(model, spec);
          CHECK(guessed["ids"] == plain["ids"]);
          CHECK(guessed["text"] == plain["text"]);
          CHECK(guessed["draft"]["model"] == draft);
          CHECK(guessed["draft"]["memory_bytes"].get<int64_t>() > 0);
          if (plain["ids"].size() == 100) CHECK(guessed["guesses"]["steps"].get<int>() > 0);
        }
      }
    }
  }
}

TEST_CASE("a draft model that is the model itself is always right") {
  for (const char* temperature : {"0", "1"}) {
    const Json guessed = report(demo(), {"-md", demo(), "--temp", temperature});
    const Json& counts = guessed["guesses"];
    CHECK(counts["tokens"].get<int>() > 5);
    CHECK(counts["right"] == counts["tokens"]);
    // Guesses beyond the end of a short text are no reason for a negative speed.
    const Json few = report(demo(), {"-md", demo(), "--temp", temperature, "--spec-max", "63"});
    CHECK(few["timings"]["bytes_per_second"].get<double>() > 0);
  }
}

TEST_CASE("guesses from a file of texts change no text, and are right where it repeats the file") {
  const TempFolder temp;
  const Json plain = report(demo(), {"--temp", "0"});
  const std::string same = temp.write("same.txt", plain["text"].get<std::string>()).string();
  const std::string other = temp.write("other.txt", "Once upon a time there was a sea.").string();
  for (const std::string& file : {same, other}) {
    for (const Arguments& by : {Arguments{}, Arguments{"--spec", "auto"}}) {
      Arguments with{"--temp", "0", "--spec-text", file};
      with.insert(with.end(), by.begin(), by.end());
      const Json guessed = report(demo(), with);
      CHECK(guessed["ids"] == plain["ids"]);
      if (file == same) CHECK(guessed["guesses"]["right"].get<int>() > 0);
    }
  }
}

TEST_CASE("--stats says what was guessed, and what the draft model takes") {
  const Outcome stats = skald({"run", "--device", "cpu", "-n", "60", "-p", "Once upon a time", "-s",
                               "1", "-md", demo(), "--device-draft", "cpu", "--stats"});
  CHECK(stats.code == 0);
  CHECK(has(stats.err, " guessed "));
  CHECK(has(stats.err, " were right, about "));
  CHECK(has(stats.err, "; draft model: "));
  CHECK(stats.err.find('\n') == stats.err.size() - 1);
}

TEST_CASE("--spec-check writes the text again without guesses") {
  const Arguments asked{"run", "--device",         "cpu", "-n", "60",
                        "-p",  "Once upon a time", "-s",  "1",  "--spec-check"};
  Arguments with = asked;
  with.insert(with.end(), {"-md", demo()});
  const Outcome checked = skald(with);
  CHECK(checked.code == 0);
  CHECK(checked.out == skald(asked).out);
  CHECK(checked.err.starts_with("skald: with guesses "));
  CHECK(checked.err.ends_with(" times as fast, the same text\n"));
  CHECK(skald(asked).err == "skald: --spec-check: no tokens were guessed\n");
  const Json json = report(demo(), {"-md", demo(), "--spec-check"});
  CHECK(json["spec_check"]["same_text"] == true);
  CHECK(json["spec_check"]["gain"].get<double>() > 0);
  CHECK(json["guesses"]["gain"].get<double>() > 0);
}

TEST_CASE("--spec chooses whether a draft model is loaded at all") {
  for (const char* by : {"off", "ngram"}) {
    CHECK(!report(demo(), {"-md", "no/such/model", "--spec", by}).contains("draft"));
  }
  CHECK(!report(demo(), {"--spec", "auto"}).contains("draft"));
}

// The program must have written the text all the same, and one line on stderr that contains `says`.
void check_goes_on(const Arguments& more, const std::string& says) {
  Arguments arguments{"run", "--device", "cpu", "-p", "Once upon a time", "-n", "20",
                      "-s",  "1",        "-t",  "1"};
  const auto model = std::find(more.begin(), more.end(), "-md");
  Arguments plain = arguments;
  plain.insert(plain.end(), more.begin(), model);
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = skald(arguments);
  CAPTURE(arguments, outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.out == skald(plain).out);
  CHECK(outcome.err.starts_with("skald: going on without the draft model: "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  CHECK(has(outcome.err, says));
}

TEST_CASE("a draft model that cannot guess is left out, and a line says why") {
  const TempFolder temp;
  const std::string recurrent = temp.write("recurrent.gguf", RecurrentGguf().file()).string();
  GgufWriter w;
  w.text("general.architecture", "nosuch");
  const std::string unknown = temp.write("unknown.gguf", w.file()).string();
  check_goes_on({"-md", unknown}, "the architecture 'nosuch' is not supported");
  check_goes_on({"-md", recurrent}, "recurrent.gguf has recurrent layers");
  check_goes_on({"--vram", "12M", "-md", demo()}, "for which there is no room beside the model");
  check_goes_on({"--regex", "[a-z ]{20}", "-md", demo()}, "follows a schema, regex or grammar");
  check_goes_on({"-md", demo(), "--device-draft", "cuda"}, "cuda");  // GPUs are hidden
}

TEST_CASE("a draft model guesses for a model with recurrent layers") {
  const TempFolder temp;
  const std::string recurrent = temp.write("recurrent.gguf", RecurrentGguf().file()).string();
  const Json plain = report(recurrent, {"--temp", "0"});
  const Json guessed = report(recurrent, {"--temp", "0", "-md", demo()});
  CHECK(guessed["ids"] == plain["ids"]);
  CHECK(guessed["guesses"]["steps"].get<int>() > 0);
}

TEST_CASE("a model leaves room for its draft model within --vram") {
  const Json plan = Json::parse(output({"plan", demo(), "--device", "cpu", "-t", "1", "--json"}));
  const int64_t taken = plan["needed_bytes"].get<int64_t>() - plan["mapped_bytes"].get<int64_t>();
  const std::string both = std::to_string(2 * taken / 1024 + 1) + "K";
  const Json guessed = report(demo(), {"-md", demo(), "--vram", both});
  CHECK(guessed["draft"]["memory_bytes"] == guessed["memory_bytes"]);
}

TEST_CASE("a draft model that drives out weights or half of the context is left out") {
  const auto plan = [](int64_t context, int64_t device, int64_t host) {
    MemoryPlan made;
    made.available = 100;
    made.context = context;
    made.parts = {{"weights", device}, {"weights on the host", host, false, true}};
    return made;
  };
  CHECK(leaves_enough(plan(512, 90, 0), plan(512, 90, 0)));
  CHECK(leaves_enough(plan(512, 90, 0), plan(256, 80, 0)));
  CHECK_FALSE(leaves_enough(plan(512, 90, 0), plan(192, 70, 0)));
  CHECK_FALSE(leaves_enough(plan(512, 90, 0), plan(512, 101, 0)));
  CHECK_FALSE(leaves_enough(plan(512, 90, 0), plan(512, 70, 20)));
  CHECK(leaves_enough(plan(512, 90, 40), plan(512, 60, 70)));  // some were there anyway
  MemoryPlan chosen = plan(512, 60, 30);
  chosen.host_by_rule = 30;  // the user put them there
  CHECK_FALSE(leaves_enough(chosen, plan(512, 40, 50)));
}

TEST_CASE("a wrong path, a broken file or a wrong flag is an error") {
  const TempFolder temp;
  const std::string broken = temp.write("broken.gguf", "GGUF but no more").string();
  const std::string model = small_gguf();
  check_refused(skald({"run", "Hi", "-md", "no/such/model"}), 3, "no/such/model");
  check_refused(skald({"run", "Hi", "-md", broken}), 3, "broken.gguf");
  check_refused(skald({"run", "Hi", "-md", ""}), 2, "--model-draft");
  check_refused(skald({"run", "Hi", "--spec", "draft"}), 2, "--spec draft needs a draft model");
  check_refused(skald({"run", "Hi", "--device-draft", "cpu"}), 2, "needs a draft model");
  check_refused(skald({"run", "Hi", "-md", demo(), "-devd", "tpu"}), 2,
                "--device-draft 'tpu': expected auto, cpu, cuda or cuda:N");
  const auto text = [](const std::string& file, const std::string& by = "ngram") {
    return skald({"run", "Hi", "--spec", by, "--spec-text", file});
  };
  check_refused(text("no/such/file"), 2, "no/such/file");
  check_refused(text(temp.write("empty.txt", "").string()), 2, "empty.txt: is empty");
  check_refused(text(temp.write("latin.txt", "caf\xE9 au lait").string()), 2, "are no UTF-8");
  check_refused(text("-"), 2, "--spec-text: takes a file");
  check_refused(text(broken, "draft"), 2, "--spec draft needs a draft model");
  check_refused(text(broken, "mtp"), 2, "--spec-text is searched by --spec ngram and auto");
  check_refused(skald({"chat", model, "--chat-template", "chatml", "--spec", "draft"}), 2,
                "--spec draft needs a draft model");
}

TEST_CASE("a chat with a draft model says the same, also after turns are taken back") {
  const TempFolder temp;
  const std::string input = "Tell a story.\nAnd then?\n/undo\nWho was there?\n/retry\n/clear\nHi\n";
  const auto talk = [&](const Arguments& more) {
    Arguments arguments{"chat", "-m", demo(), "--chat-template", "zephyr", "-n", "30", "-s", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_program(in_folder(temp, arguments, input));
    CHECK(outcome.code == 0);
    return outcome;
  };
  const Outcome plain = talk({}), guessed = talk({"-md", demo(), "--stats"});
  CHECK(plain.out.size() > 100);
  CHECK(guessed.out == plain.out);
  CHECK(has(guessed.err, " guessed "));
  CHECK(talk({"-md", small_gguf()}).out == plain.out);
}

}  // namespace
}  // namespace skald::test
