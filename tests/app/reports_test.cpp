// The output of inspect, bench and diff, as text and as JSON.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

std::string output_with(std::vector<std::string> arguments, const std::string& flag) {
  if (!flag.empty()) arguments.push_back(flag);
  return output(arguments);
}

void check_keys(const Json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(object.contains(key));
  }
}

TEST_CASE("inspect describes a GGUF and a folder") {
  const std::string text = output({"inspect", small_gguf()});
  CHECK(has(text, "family      Llama (llama, GGUF v3)"));
  CHECK(has(text, "parameters  852736 in 887.0 KiB"));
  CHECK(has(text, "Q8_0        9 tensors, 884.0 KiB"));
  CHECK(!has(text, "token_embd.weight"));
  CHECK(has(output({"inspect", "-m", small_gguf(), "--tensors"}), "token_embd.weight  "));
  CHECK(has(output({"inspect", small_gguf(), "--metadata"}), "llama.context_length"));

  const std::string folder = (data_dir() / "goldens" / "llama3-gqa-tied-ropescale").string();
  CHECK(has(output({"inspect", folder}), "scaling llama3"));
}

TEST_CASE("inspect's JSON has every field") {
  for (const std::string& path : {small_gguf(), (data_dir() / "goldens" / "llama-mha").string()}) {
    const Json report = Json::parse(output({"inspect", path, "--json"}));
    check_keys(report, {"path", "format", "family", "parameters", "bytes", "config", "tokenizer",
                        "types", "tensors"});
    check_keys(report["config"], {"architecture", "layers", "dim", "heads", "kv_heads", "context",
                                  "vocab", "rope_base", "tied_embeddings"});
    int64_t bytes = 0;
    for (const Json& tensor : report["tensors"]) {
      check_keys(tensor, {"name", "shape", "type", "bytes"});
      bytes += tensor["bytes"].get<int64_t>();
    }
    CHECK(bytes == report["bytes"]);
    CHECK(report.contains("metadata") == (report["format"] == "gguf"));
  }
}

void check_bench(const Json& report) {
  check_keys(report, {"model", "bytes", "parameters", "backend", "read_bytes_per_second"});
  CHECK(report["read_bytes_per_second"].get<double>() > 1e8);
  REQUIRE(report["results"].size() == 2);
  for (const Json& row : report["results"]) {
    check_keys(row, {"test", "kind", "tokens", "depth", "sequences", "seconds", "tokens_per_second",
                     "tokens_per_second_deviation"});
    const bool prefill = row["kind"] == "prefill";
    CHECK(row["test"] == (prefill ? "pp8 @ d3" : "tg4 @ d3"));
    CHECK(row["sequences"] == 1);
    CHECK(row["seconds"].size() == 2);
    for (const char* rate : {"tokens_per_second", prefill ? "flops_per_second" : "bytes_per_second",
                             prefill ? "tokens_per_second" : "share_of_read_bandwidth"}) {
      CHECK(std::isfinite(row[rate].get<double>()));
      CHECK(row[rate].get<double>() > 0);
    }
  }
}

TEST_CASE("bench measures decode with guesses beside decode without") {
  const Json report = Json::parse(output_with(
      {"bench", "-m", small_gguf(), "-p", "0", "-n", "40", "-r", "2", "--spec-accept", "0.5"},
      "--json"));
  REQUIRE(report["results"].size() == 2);
  CHECK(report["results"][0]["accepted"].is_null());
  const Json& row = report["results"][1];
  CHECK(row["test"] == "tg40 a0.5");
  CHECK(row["accepted"] == 0.5);
  CHECK(row["tokens_per_second"].get<double>() > 0);
  CHECK(!row.contains("bytes_per_second"));
}

TEST_CASE("bench reports the same as JSON, CSV, Markdown and text") {
  const std::vector<std::string> base{"bench", "-m", small_gguf(), "-p", "8", "-n",
                                      "4",     "-d", "3",          "-r", "2"};
  const auto with = [&](const char* flag) { return output_with(base, flag); };
  check_bench(Json::parse(with("--json")));

  std::istringstream csv(with("--csv"));
  std::string line;
  std::getline(csv, line);
  CHECK(line ==
        "model,bytes,parameters,backend,threads,test,kind,tokens,depth,sequences,repetitions,"
        "tokens_per_second,tokens_per_second_deviation,bytes_per_second,"
        "share_of_read_bandwidth,flops_per_second,accepted,cache_type_k,cache_type_v");
  std::getline(csv, line);
  CHECK(has(line, "kq256.q8_0.gguf,908288,852736,\"cpu ("));
  CHECK(has(line, ",pp8 @ d3,prefill,8,3,1,2,"));
  std::getline(csv, line);
  CHECK(has(line, ",tg4 @ d3,decode,4,3,1,2,"));
  CHECK(!std::getline(csv, line));

  std::istringstream markdown(with("--markdown"));
  std::vector<size_t> bars;
  for (int i = 0; i < 4 && std::getline(markdown, line); ++i) {
    bars.push_back(static_cast<size_t>(std::count(line.begin(), line.end(), '|')));
    CHECK((line.front() == '|' && line.back() == '|'));
  }
  CHECK(bars == std::vector<size_t>(4, 11));

  const std::string text = with("");
  CHECK(has(text, "887.0 KiB"));
  CHECK(has(text, "852.7 K"));
  CHECK(has(text, "\nread bandwidth of this machine with these threads: "));
}

double mean_seconds(const Json& row) {
  double sum = 0;
  for (const Json& seconds : row["seconds"]) sum += seconds.get<double>();
  return sum / static_cast<double>(row["seconds"].size());
}

TEST_CASE("bench decodes several sequences at once, at each depth and beside single sequences") {
  // 40 sequences are more than the rows of a step (32), and more than the rows whose logits are
  // computed at once.
  const Json report =
      Json::parse(output({"bench", "-m", small_gguf(), "-p", "8", "-n", "4,2", "-d", "0,70", "-b",
                          "1,3,40", "--rows", "32", "-r", "2", "--json"}));
  std::vector<std::string> names;
  for (const Json& row : report["results"]) names.push_back(row["test"].get<std::string>());
  CHECK(names == std::vector<std::string>{"pp8", "tg4", "tg2", "tg4 b3", "tg2 b3", "tg4 b40",
                                          "tg2 b40", "pp8 @ d70", "tg4 @ d70", "tg2 @ d70",
                                          "tg4 b3 @ d70", "tg2 b3 @ d70", "tg4 b40 @ d70",
                                          "tg2 b40 @ d70"});
  const Json config = Json::parse(output({"inspect", small_gguf(), "--json"}))["config"];
  const double cache_bytes = 2 * 2 * config["layers"].get<double>() *
                             config["kv_heads"].get<double>() * config["dim"].get<double>() /
                             config["heads"].get<double>();
  double weight_bytes = 0;
  for (const Json& row : report["results"]) {
    CAPTURE(row.dump());
    const double tokens = row["tokens"], sequences = row["sequences"];
    double rate = 0;
    for (const Json& seconds : row["seconds"]) rate += tokens * sequences / seconds.get<double>();
    CHECK(row["tokens_per_second"].get<double>() == Approx(rate / 2));
    if (row["kind"] == "prefill") continue;
    const double length = row["depth"].get<double>() + (tokens + 1) / 2;
    const double bytes = row["bytes_per_second"].get<double>() * mean_seconds(row);
    // Each sequence reads a row of the embedding, of Q8_0.
    const double row_bytes = config["dim"].get<double>() / 32 * 34;
    const double weights =
        bytes / tokens - sequences * length * cache_bytes - (sequences - 1) * row_bytes;
    if (weight_bytes == 0) weight_bytes = weights;
    CHECK(weights == Approx(weight_bytes));
  }
  CHECK(weight_bytes > 0.5 * report["bytes"].get<double>());
  CHECK(weight_bytes <= report["bytes"].get<double>());
}

TEST_CASE("bench's tables name the number of sequences") {
  const std::vector<std::string> base{"bench", "-m", small_gguf(), "-p", "0", "-n",
                                      "4",     "-b", "3",          "-r", "1"};
  CHECK(has(output_with(base, "--csv"), ",tg4 b3,decode,4,0,3,1,"));
  CHECK(has(output_with(base, "--markdown"), "| tg4 b3 |"));
}

TEST_CASE("bench refuses more sequences than fit into memory") {
  const Outcome outcome =
      skald({"bench", "-m", small_gguf(), "-p", "0", "-n", "1", "-d", "16777215", "-b", "1,1024"});
  CHECK(outcome.code == 4);
  CHECK(outcome.out == "");
  CHECK(has(outcome.err, "a context of 16777216 for each of 1024 sequences"));
}

TEST_CASE("bench measures a published shape with random weights") {
  const Json report = Json::parse(output({"bench", "--shape", "smollm2-135m", "--type", "q4_0",
                                          "-p", "8", "-n", "4", "-d", "3", "-r", "2", "--json"}));
  CHECK(report["model"] == "smollm2-135m q4_0");
  CHECK(report["parameters"] == 134515008);
  check_bench(report);
}

TEST_CASE("an unknown shape or type is answered with the known ones") {
  const Outcome shape = skald({"bench", "--shape", "llama-9", "--type", "f16"});
  CHECK(shape.code == 2);
  CHECK(has(shape.err, "unknown shape 'llama-9'; these are: smollm2-135m, tinyllama-1.1b, "));
  const Outcome type = skald({"bench", "--shape", "smollm2-135m", "--type", "q9"});
  CHECK(type.code == 2);
  CHECK(has(type.err, "unknown type 'q9'; these are: f32, f16, "));
}

TEST_CASE("diff finds no difference between the reference and the exact settings") {
  TempFolder folder;
  for (const char* golden : {"llama-mha", "llama3-gqa-tied-ropescale", "mistral-swa-headdim64"}) {
    const auto path = folder.path() / golden;
    make_folder(path, golden);
    const Json report = Json::parse(output({"diff", "-m", path.string(), "-a", "reference,exact",
                                            "-b", "cpu,exact", "--json", "--tolerance", "1e-4"}));
    check_keys(report, {"a", "b", "tokens", "tolerance", "first", "ops"});
    CHECK(report["first"].is_null());
    for (const Json& op : report["ops"]) {
      check_keys(op, {"op", "name", "buffer", "relative", "largest", "row", "col"});
      CHECK(op["relative"].get<double>() <= 1e-4);
      CHECK(op["beyond_tolerance"] == false);
    }
  }
}

TEST_CASE(
    "diff of equal settings finds nothing; of other settings, diff names the first op that "
    "differs") {
  const std::string same = output({"diff", "-m", small_gguf(), "-a", "cpu,threads=1", "-b",
                                   "cpu,threads=2,rows=3", "--tolerance", "0"});
  CHECK(has(same, "no buffer differs by more than 0.00e+00"));
  const std::string other = output(
      {"diff", "-m", small_gguf(), "-a", "cpu,exact", "-b", "cpu", "--tolerance", "0"}, "", 1);
  CHECK(has(other, "\nfirst difference: op 2, linear blk.0.attn_q.weight: buffer 'q' differs by "));
  CHECK(has(output({"diff", "-m", small_gguf()}), "no buffer differs by more than 5.00e-02"));
}

TEST_CASE("diff compares several ranks with one by the buffers that each rank has whole") {
  const auto ops_of = [](const char* b) {
    return Json::parse(output(
        {"diff", "-m", small_gguf(), "-a", "cpu,exact", "-b", b, "--json", "--tolerance", "1e-4"}));
  };
  const Json ranks = ops_of("cpu,exact,tp=2"), alone = ops_of("cpu,exact,rows=2");
  CHECK(ranks["ops"].size() < alone["ops"].size());
  CHECK(ranks["ops"].back()["buffer"] == "logits");
  const auto buffers = [](const Json& report) {
    std::set<std::string> names;
    for (const Json& op : report["ops"]) names.insert(op["buffer"]);
    return names;
  };
  const std::set<std::string> whole = buffers(ranks), all = buffers(alone);
  CHECK(whole.count("x") == 1);  // the residual stream
  CHECK(whole.count("q") == 0);  // each rank has some heads
  CHECK(all.count("q") == 1);
  // A sum of parts has other roundings than the whole sum.
  const std::string strict = output({"diff", "-m", small_gguf(), "-a", "cpu,exact,tp=2", "-b",
                                     "cpu,exact,tp=3", "--tolerance", "0"},
                                    "", 1);
  CHECK(has(strict, "\nfirst difference: op "));
  CHECK(has(strict, "attn_output"));
  const Outcome refused = skald({"diff", "-m", small_gguf(), "-b", "cpu,tp=61"});
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "--tp 61: this model has no part that can be divided by 61"));
}

TEST_CASE("diff checks its settings before it reads the model") {
  for (const char* setting :
       {"", "foo", "exact", "cpu,", "cpu,,exact", "cpu,threads=0", "cpu,threads=1025",
        "cpu,threads=x", "cpu,rows=99999999999", "cpu,rows=-1", "reference;exact", "cpu,cpu",
        "cpu,tp=0", "cpu,tp=65"}) {
    const Outcome outcome = skald({"diff", "-m", "/nothing", std::string("-a"), setting});
    CAPTURE(setting, outcome.err);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
}

}  // namespace
}  // namespace skald::test
