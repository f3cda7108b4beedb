// skald perplexity: its numbers, its files, its errors.
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/model/open.h"
#include "tests/json_lines.h"
#include "tests/program_output.h"
#include "tests/pty.h"
#include "tests/sha256.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

std::string story() { return (data_dir() / "demo_heldout.txt").string(); }

Outcome perplexity(const Arguments& more) {
  Arguments arguments{"perplexity", "--device", "cpu"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return skald(arguments);
}

Json result_of(Arguments more) {
  more.push_back("--json");
  const Outcome outcome = perplexity(more);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "");
  return Json::parse(outcome.out);
}

std::vector<Json> lines_of(const std::filesystem::path& file) {
  return json_lines(read_file(file));
}

TEST_CASE("a perplexity is reported with everything that a comparison needs") {
  const Json json = result_of({"-f", story(), "--chunks", "6"});
  CHECK(json["protocol"] == "llama.cpp:512");
  CHECK(json["context"] == 512);
  CHECK(json["scored_chunks"] == 6);
  CHECK(json["scored_tokens"] == 6 * 255);
  CHECK(json["chunks"].get<int64_t>() == json["text"]["tokens"].get<int64_t>() / 512);
  CHECK(json["text"]["bytes"] == read_file(story()).size());
  CHECK(json["text"]["sha256"] == sha256_hex(read_file(story())));
  CHECK(json["tokenizer_hash"].get<std::string>().size() == 64);
  CHECK(json["model"]["hash"].get<std::string>().size() == 64);
  CHECK(json["model"]["type"] == "F16");
  CHECK(json["model"]["kv_type"] == "F16");
  CHECK(has(json["model"]["device"].get<std::string>(), "cpu ("));
  const double value = json["perplexity"]["value"], nll = json["nll"]["value"];
  CHECK(value == Approx(std::exp(nll)));
  CHECK(value > 1.2);
  CHECK(value < 1.6);

  const std::string text = perplexity({"-f", story(), "--chunks", "6"}).out;
  char begin[64];
  std::snprintf(begin, sizeof begin, "perplexity              %.6f ± ", value);
  CHECK(text.starts_with(begin));
  for (const char* part : {"llama.cpp:512: chunks of 512, BOS first, tokens 257 to 511 scored",
                           "1530 tokens of 6 chunks (0 to 5 of ", "F16, KV F16, cpu ("}) {
    CHECK(has(text, part));
  }
  const Json exact = result_of({"-f", story(), "--chunks", "6", "--exact"});
  CHECK(exact["model"]["kv_type"] == "F32");
  CHECK(exact["perplexity"]["value"].get<double>() == Approx(value).epsilon(2e-3));
}

// Expected values by scripts/perplexity_transformers.py: transformers 5.17, float32, the first 8000
// bytes.
TEST_CASE("protocols hf and gptq agree with Hugging Face transformers on the bundled model") {
  TempFolder folder;
  const std::string text = folder.write("t.txt", read_file(story()).substr(0, 8000)).string();
  const struct {
    const char* protocol;
    double perplexity, page;
    int64_t tokens;
  } cases[] = {{"hf:512:256", 1.261012240826283, 1.2610126828884154, 2237},
               {"hf:200:77", 1.2815372845995598, 1.2813670674004123, 2237},
               {"gptq:512", 1.3468996921356982, 0, 2044},
               {"gptq:128", 2.048181896716566, 0, 2159}};
  for (const auto& c : cases) {
    CAPTURE(c.protocol);
    const Json json = result_of({"-f", text, "--protocol", c.protocol, "--exact"});
    CHECK(json["scored_tokens"] == c.tokens);
    CHECK(std::fabs(std::log(json["perplexity"]["value"].get<double>() / c.perplexity)) <= 1e-6);
    if (c.page > 0) {
      CHECK(std::fabs(std::log(json["page_perplexity"].get<double>() / c.page)) <= 1e-6);
    }
  }
}

TEST_CASE("perplexities of a trained model agree with llama.cpp's on two texts") {
  if (!have_shared("goldens/gguf-stories") || !have_shared("text")) return;
  const struct {
    const char *text, *context;
    double perplexity, error;
  } cases[] = {{"shakespeare.txt", "128", 106.6675, 3.38501},
               {"wikitext2-test.txt", "128", 181.0774, 7.18219}};
  const std::string model = (shared_dir() / "goldens/gguf-stories/stories260K.f32.gguf").string();
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const Json json =
        result_of({model, "-f", (shared_dir() / "text" / c.text).string(), "--protocol",
                   std::string("llama.cpp:") + c.context, "--chunks", "200", "--exact"});
    CHECK(json["scored_chunks"] == 200);
    CHECK(json["scored_tokens"] == 200 * 63);
    const double value = json["perplexity"]["value"];
    CHECK(std::fabs(std::log(value / c.perplexity)) <= 1e-6);
    CHECK(json["perplexity"]["error"].get<double>() == Approx(c.error).margin(1e-4));
  }
}

TEST_CASE("protocol doc scores each document, by words, bytes and bits") {
  TempFolder folder;
  const std::string lines =
      folder.write("docs.jsonl", "{\"text\": \"Once upon a time\\nthere was\"}\n\n\"The end.\"\n")
          .string();
  const Json both = result_of({"-f", lines, "--protocol", "doc", "--exact"});
  CHECK(both["chunks"] == 2);
  CHECK(both["words"] == 6 + 2);
  CHECK(both["bytes"] == 26 + 8);
  double nll = 0;
  for (const char* text : {"Once upon a time\nthere was", "The end."}) {
    const std::string file = folder.write("doc.txt", text).string();
    const Json one = result_of({"-f", file, "--protocol", "doc", "--exact"});
    nll += one["nll"]["value"].get<double>() * one["scored_tokens"].get<double>();
  }
  CHECK(both["bits_per_byte"].get<double>() == Approx(nll / 34 / std::log(2.0)));
  CHECK(both["word_perplexity"].get<double>() == Approx(std::exp(nll / 8)));
  CHECK(both["byte_perplexity"].get<double>() == Approx(std::exp(nll / 34)));
  folder.write("docs.jsonl", "\"fine\"\n{\"txt\": 1}\n");
  check_refused(perplexity({"-f", lines, "--protocol", "doc"}), 1,
                "line 2: expected a JSON string");
}

TEST_CASE("parts of a run merge into the digits of a single run, with any threads and rows") {
  TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  const Arguments text{"-f", story(), "--protocol", "llama.cpp:128", "--chunks"};
  const auto with = [&](Arguments more) {
    Arguments all = text;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Json whole = result_of(with({"0:20", "-t", "1", "--jsonl", file("whole.jsonl")}));
  result_of(with({"7:20", "-t", "3", "--rows", "50", "--jsonl", file("b.jsonl")}));
  result_of(with({"0:7", "--rows", "1000", "--checkpoint", file("a.jsonl")}));
  const Json merged = result_of({"--merge", file("b.jsonl"), file("a.jsonl")});
  CHECK(merged["perplexity"] == whole["perplexity"]);
  CHECK(merged["nll"] == whole["nll"]);
  CHECK(merged["scored_chunks"] == 20);
  CHECK(lines_of(file("whole.jsonl")).size() == 21);

  check_refused(perplexity({"--merge", file("a.jsonl"), file("a.jsonl")}), 1,
                "are also in another file");
  result_of(with({"9:20", "--jsonl", file("c.jsonl")}));
  check_refused(perplexity({"--merge", file("a.jsonl"), file("c.jsonl")}), 1,
                "chunks 7 to 8 are in none of the files");
  result_of(
      {"-f", story(), "--protocol", "gptq:128", "--chunks", "7:8", "--jsonl", file("d.jsonl")});
  check_refused(perplexity({"--merge", file("a.jsonl"), file("d.jsonl")}), 1,
                "was made by a different run: protocols llama.cpp:128 and gptq:128");
  check_refused(perplexity({"--merge", story()}), 1, "line 1 is no record of a perplexity run");
}

TEST_CASE("a damaged or edited record is refused, never summed") {
  TempFolder folder;
  const std::string path = (folder.path() / "c.jsonl").string();
  const Arguments run{"-f", story(), "--protocol", "gptq:64", "--chunks", "4"};
  Arguments resumed = run;
  resumed.insert(resumed.end(), {"--checkpoint", path});
  const Json whole = result_of(resumed);
  const std::string kept = read_file(path);
  const auto edited = [&](const std::string& from, const std::string& to, int line) {
    std::string text = kept;
    const size_t at = text.find(from);
    CAPTURE(from, kept);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    folder.write("c.jsonl", text);
    for (const Arguments& again : {resumed, Arguments{"--merge", path}}) {
      check_refused(perplexity(again), 1, "c.jsonl: line " + std::to_string(line) + ": ");
    }
    CHECK(read_file(path) == text);
  };
  edited("\"tokens\":63,\"nll\":", "\"tokens\":63,\"nll\":1", 2);
  edited("\"tokens\":63,\"nll\":", "\"tokens\":-63,\"nll\":", 2);
  edited("\"tokens\":63,\"nll\":", "\"tokens\":64,\"nll\":", 2);
  edited("{\"chunk\":2,", "{\"chunk\": 2,", 4);
  edited("\"perplexity 2\"", "\"perplexity 1\"", 1);
  edited("\"context\":64", "\"context\":65", 1);
  folder.write("c.jsonl", kept.substr(0, kept.find("{\"chunk\":2,")));
  CHECK(result_of(resumed)["nll"] == whole["nll"]);
  CHECK(read_file(path) == kept);
}

TEST_CASE("documents have a number of tokens, and a model the type that its file says") {
  TempFolder folder;
  const std::string model = (folder.path() / "m.gguf").string();
  const std::string demo = (source_dir() / "models" / "demo").string();
  output({"quantize", demo, model, "--type", "q4_k_m"});
  const std::string text = folder.write("text", "Once upon a time. The end.").string();
  const Json json = result_of({model, "-f", text, "--protocol", "doc"});
  CHECK(json["text"]["tokens"] == json["scored_tokens"]);
  CHECK(json["text"]["tokens"] > 4);
  CHECK(json["model"]["type"] == "Q4_K_M");
  const Json loaded = result_of({"-f", text, "--protocol", "doc", "--type", "q4_k_m"});
  CHECK(loaded["model"]["type"] == "Q4_K_M");
}

TEST_CASE("a killed run continues from its checkpoint and ends with the same digits") {
  TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  const Arguments run{"-f",       story(), "--protocol", "llama.cpp:64",
                      "--chunks", "60",    "--rows",     "63"};
  const Json whole = result_of(run);
  Arguments resumed = run;
  resumed.insert(resumed.end(), {"--checkpoint", file("c.jsonl")});
  for (const double seconds : {0.3, 0.6, 0.9}) {
    Arguments arguments{"perplexity", "--device", "cpu"};
    arguments.insert(arguments.end(), resumed.begin(), resumed.end());
    Invocation killed{arguments, ""};
    killed.seconds = seconds;
    run_program(killed);
  }
  // A machine that lost power may leave a torn last line.
  if (std::filesystem::exists(file("c.jsonl"))) {
    std::string kept = read_file(file("c.jsonl"));
    if (kept.size() > 3000)
      folder.write("c.jsonl", std::string_view(kept).substr(0, kept.size() - 20));
  }
  const Json end = result_of(resumed);
  CHECK(end["perplexity"] == whole["perplexity"]);
  CHECK(end["nll"] == whole["nll"]);
  CHECK(lines_of(file("c.jsonl")).size() == 61);
  CHECK(result_of(resumed)["nll"] == whole["nll"]);  // everything is in the checkpoint already
  CHECK(result_of({"--merge", file("c.jsonl")})["nll"] == whole["nll"]);

  Arguments other = resumed;
  other.push_back("--exact");
  check_refused(perplexity(other), 2, "was made by a different run: caches of F16 and F32");
  other = resumed;
  other[5] = "10:20";
  check_refused(perplexity(other), 2, "found chunk 0, but this run needs");
  folder.write("c.jsonl", "precious\n");
  check_refused(perplexity(resumed), 1, "line 1 is no record of a perplexity run");
  CHECK(read_file(file("c.jsonl")) == "precious\n");
}

TEST_CASE(
    "perplexity --tokens writes log-probability, rank and entropy of each token, and they add up") {
  TempFolder folder;
  const std::string tokens = (folder.path() / "t.jsonl").string();
  const Json json = result_of(
      {"-f", story(), "--protocol", "gptq:64", "--chunks", "3", "--tokens", tokens, "--exact"});
  const std::vector<Json> lines = lines_of(tokens);
  REQUIRE(lines.size() == 3 * 63);
  double nll = 0;
  for (const Json& line : lines) {
    nll -= line["logprob"].get<double>();
    CHECK(line["entropy"].get<double>() >= 0);
    // The likeliest of 2048 has at least 1 / 2048.
    if (line["rank"] == 0) CHECK(line["logprob"].get<double>() > -7.7);
  }
  CHECK(nll == Approx(json["nll"]["value"].get<double>() * 3 * 63));
  CHECK(lines[63]["chunk"] == 1);
  CHECK(lines[63]["token"] == 65);
  const auto ids = open_tokenizer(bundled_model())->encode(read_file(story()));
  CHECK(lines[63]["id"] == ids[65]);
}

TEST_CASE("perplexity --llama-format prints the lines of llama-perplexity") {
  const Outcome outcome =
      perplexity({"-f", story(), "-c", "128", "--chunks", "3", "--llama-format"});
  CHECK(outcome.code == 0);
  const Json json = result_of({"-f", story(), "--protocol", "llama.cpp:128", "--chunks", "3"});
  char final[100];
  std::snprintf(final, sizeof final, ",\nFinal estimate: PPL = %.4f +/- %.5f\n",
                json["perplexity"]["value"].get<double>(),
                json["perplexity"]["error"].get<double>());
  CHECK(has(outcome.out, final));
  CHECK(outcome.out.starts_with("[1]1."));
  CHECK(has(outcome.out, ",[2]1."));
  CHECK(has(outcome.err, "perplexity: calculating perplexity over 3 chunks, n_ctx=128"));
}

TEST_CASE(
    "a model is compared with another model, with llama.cpp's file of logits and with a compact "
    "file") {
  TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string model = small_gguf(),
                    other = (data_dir() / "gguf" / "kq256.q2_k.gguf").string();
  const Arguments text{"-f", story(), "--protocol", "llama.cpp:64", "--chunks", "4"};
  const auto with = [&](Arguments more) {
    more.insert(more.end(), text.begin(), text.end());
    return more;
  };
  const Json itself = result_of(with({model, "--base", model}))["comparison"];
  CHECK(itself["divergence"]["value"] == 0);
  CHECK(itself["ratio"]["value"] == 1);
  CHECK(itself["same_top"]["value"] == 1);
  CHECK(itself["correlation"].get<double>() == Approx(1));

  const Json direct = result_of(with({other, "--base", model}));
  const Json& c = direct["comparison"];
  CHECK(c["divergence"]["value"].get<double>() > 0);
  CHECK(c["base_perplexity"] == result_of(with({model}))["perplexity"]);
  CHECK(c["ratio"]["value"].get<double>() == Approx(direct["perplexity"]["value"].get<double>() /
                                                    c["base_perplexity"]["value"].get<double>()));
  // Paired values vary less.
  CHECK(c["ln_ratio"]["error"].get<double>() < direct["nll"]["error"].get<double>());

  result_of(with({model, "--save-logits", file("base.kld")}));
  result_of(with({model, "--save-base", file("base.skl"), "--base-top", "100"}));
  for (const char* base : {"base.kld", "base.skl"}) {
    const Json by_file = result_of(with({other, "--base", file(base)}))["comparison"];
    const double slack = by_file["divergence_slack"], value = by_file["divergence"]["value"];
    const double expected = c["divergence"]["value"];
    CAPTURE(base, value, expected, slack);
    CHECK(value <= expected * 1.002);
    CHECK(value + slack >= expected * 0.998);
    CHECK(by_file["ln_ratio"]["value"].get<double>() ==
          Approx(c["ln_ratio"]["value"].get<double>()).margin(2e-4));
  }
  // llama.cpp's file contains the tokens too.
  const Json alone = result_of({other, "--base", file("base.kld")});
  CHECK(alone["scored_tokens"] == 4 * 31);
  result_of({model, "--base", file("base.kld"), "--save-logits", file("again.kld")});
  CHECK(read_file(file("again.kld")) == read_file(file("base.kld")));
  const std::string report = perplexity(with({other, "--base", file("base.skl")})).out;
  for (const char* part : {"KL divergence", "the exact value is at most", "same top token",
                           "99.9 %", "compact, the 100 most probable tokens"}) {
    CHECK(has(report, part));
  }
  const std::string shorter = folder.write("other.txt", read_file(story()).substr(300)).string();
  check_refused(perplexity({other, "--base", file("base.kld"), "-f", shorter}), 1,
                "was made with another text: token");
  check_refused(perplexity({other, "--base", file("base.skl"), "-f", shorter, "--protocol",
                            "llama.cpp:64", "--chunks", "4"}),
                1, "was made by a different run: texts with SHA-256");
  check_refused(perplexity(with({"--base", model})), 1,
                "the models' vocabularies differ: 2048 and 512 tokens");
  check_refused(perplexity(with({"--base", file("base.kld")})), 1, "the vocabularies differ");
  check_refused(perplexity(with({other, "--base", folder.path().string()})), 3,
                "is not a model folder");
}

TEST_CASE("what cannot be measured is refused in one line") {
  TempFolder folder;
  const std::string tiny = folder.write("tiny.txt", "Once upon a time.").string();
  const std::string empty = folder.write("empty.txt", "").string();
  const std::string binary = folder
                                 .write("binary", std::string("\x7f"
                                                              "ELF\0\1\2",
                                                              7))
                                 .string();
  const std::string latin = folder.write("latin.txt", "caf\xe9 caf\xe9").string();
  check_refused(perplexity({"-f", tiny}), 1, "but llama.cpp:512 needs 1024; take a longer text");
  check_refused(perplexity({"-f", empty}), 2, "empty.txt: is empty");
  check_refused(perplexity({"-f", binary}), 2, "byte 4 is NUL");
  check_refused(perplexity({"-f", latin}), 2, "the bytes from 3 on are no UTF-8");
  check_refused(perplexity({"-f", folder.path().string()}), 2, "is a folder");
  check_refused(perplexity({"-f", "/nowhere.txt"}), 2, "cannot be opened");
  check_refused(perplexity({}), 2, "no text given; give a file with -f");
  check_refused(perplexity({"-f", story(), "--protocol", "llama.cpp:1024"}), 2,
                "a context of 1024: the model was trained for 512 tokens");
  check_refused(perplexity({"-f", story(), "--protocol", "gptq:64", "-c", "32"}), 2,
                "give different contexts");
  check_refused(perplexity({"-f", story(), "--protocol", "ppl"}), 2, "expected llama.cpp");
  check_refused(perplexity({"-f", story(), "-f", tiny}), 2, "only --protocol doc");
  for (const char* range : {"5:5", "7:5", "0:9999", "-1:3", "a:b", "9999", "0", "3:4:5", ":"}) {
    CAPTURE(range);
    const Outcome outcome = perplexity({"-f", story(), std::string("--chunks=") + range});
    if (std::string_view(range) == ":") continue;  // all chunks, which is valid
    CHECK(outcome.code == 2);
    CHECK(has(outcome.err, "expected A:B with 0 <= A < B <= "));
  }
  check_refused(perplexity({"-f", story(), "--protocol", "gptq:64", "--llama-format"}), 2,
                "--llama-format");
  check_refused(perplexity({"-f", story(), "--checkpoint", "x", "--tokens", "y"}), 2,
                "would be missing");
  check_refused(perplexity({"-f", story(), "--jsonl", "/nowhere/x"}), 1, "cannot be written");
}

TEST_CASE("a full disk is an error for every output file") {
  const Arguments run{"-f", story(), "--protocol", "gptq:64", "--chunks", "2"};
  for (const char* flag : {"--jsonl", "--tokens", "--plot", "--save-base"}) {
    Arguments all = run;
    all.insert(all.end(), {flag, "/dev/full"});
    check_refused(perplexity(all), 1, "/dev/full: cannot be written: No space left on device");
  }
  Arguments arguments{"perplexity", "--device", "cpu"};
  arguments.insert(arguments.end(), run.begin(), run.end());
  Invocation full{arguments, ""};
  full.out_file = "/dev/full";
  CHECK(run_program(full).code == 1);
}

TEST_CASE("the text may come from stdin, and --plot writes an SVG") {
  TempFolder folder;
  const std::string plot = (folder.path() / "p.svg").string();
  const Outcome outcome = skald({"perplexity", "-f", "-", "--protocol", "gptq:64", "--plot", plot,
                                 "--json", "--device", "cpu"},
                                read_file(story()).substr(0, 4000));
  CHECK(outcome.code == 0);
  const std::string svg = read_file(plot);
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(has(svg, "<polyline"));
  size_t circles = 0;
  for (size_t at = 0; (at = svg.find("<circle", at)) != svg.npos; ++at) ++circles;
  CHECK(circles == Json::parse(outcome.out)["chunks"].get<size_t>() + 1);  // and the legend
}

TEST_CASE("a terminal shows progress and time left") {
  TempFolder folder;
  const Outcome outcome =
      run_on_terminal({"perplexity", "--device", "cpu", "-f", story(), "--protocol", "llama.cpp:32",
                       "--rows", "31", "--checkpoint", (folder.path() / "c").string()},
                      100);
  CHECK(outcome.code == 0);
  CHECK(has(outcome.out, "] perplexity 1."));
  CHECK(has(outcome.out, " tokens/s"));
  CHECK(has(outcome.out, " left, "));
  CHECK(has(outcome.out, "\r\x1b[Kperplexity              "));
}

TEST_CASE("progress lines fit a terminal of 40 columns") {
  const Outcome outcome =
      run_on_terminal({"perplexity", "--device", "cpu", "-f", story(), "--protocol", "llama.cpp:32",
                       "--rows", "31", "--chunks", "40"},
                      40);
  CHECK(outcome.code == 0);
  const std::string_view all = outcome.out, begin = "\r\x1b[K";
  int lines = 0;
  for (size_t at = all.find(begin); at != all.npos; at = all.find(begin, at + 1)) {
    const size_t from = at + begin.size();
    const size_t end = std::min(all.find(begin, from), all.find('\n', from));
    if (!all.substr(from).starts_with("[")) continue;
    const std::string line(all.substr(from, end - from));
    CAPTURE(line);
    CHECK(has(line, "] perplexity 1."));
    CHECK(line.size() <= 40);  // the sign ± takes two bytes
    ++lines;
  }
  CHECK(lines > 0);
}

}  // namespace
}  // namespace skald::test
