// skald embed: vectors of texts, as lines of JSON and as a .npy.
#include <cmath>
#include <cstring>
#include <fstream>

#include "app/embed/choice.h"
#include "app/embed/npy.h"
#include "app/embed/result.h"
#include "app/files/json.h"
#include "app/model/open.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/json_lines.h"
#include "tests/process.h"
#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

struct EmbedFiles {
  TempFolder folder;
  std::string in = (folder.path() / "in.jsonl").string();
  std::string out = (folder.path() / "out.jsonl").string();
  std::string npy = (folder.path() / "out.npy").string();

  explicit EmbedFiles(const std::string& lines) { folder.write("in.jsonl", lines); }
  Outcome run(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"embed", "--device", "cpu", "-i", in, "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return skald(all);
  }
};

// The hidden rows of a text by the reference executor, in float32.
Matrix reference_rows(const std::string& text) {
  const OpenedModel opened = open_model(bundled_model());
  RunOptions options;
  options.exact = true;
  const auto executor = cpu::make_executor(opened.model, options, cpu::KernelSet::Reference);
  const std::vector<int32_t> ids = open_tokenizer(opened).tokenizer->encode(text);
  Sequence sequence = executor->new_sequence();
  const SeqRows rows{&sequence, ids, Want::EveryRow};
  Matrix matrix;
  matrix.rows = executor->run({&rows, 1});
  matrix.cols = opened.model.config.dim;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    const auto hidden = executor->hidden(row);
    matrix.values.insert(matrix.values.end(), hidden.begin(), hidden.end());
  }
  return matrix;
}

std::vector<double> pooled(const Matrix& rows, const std::string& pooling) {
  const int64_t first = pooling == "last" ? rows.rows - 1 : 0;
  const int64_t last = pooling == "cls" ? 0 : rows.rows - 1;
  std::vector<double> vector(static_cast<size_t>(rows.cols));
  for (int64_t row = first; row <= last; ++row) {
    for (int64_t i = 0; i < rows.cols; ++i) {
      vector[static_cast<size_t>(i)] += rows.row(row)[i] / static_cast<double>(last - first + 1);
    }
  }
  return vector;
}

double length(const std::vector<double>& vector) {
  double sum = 0;
  for (const double value : vector) sum += value * value;
  return std::sqrt(sum);
}

double distance(std::vector<double> a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return length(a);
}

std::vector<double> embedding_of(const std::vector<std::string>& flags) {
  std::vector<std::string> all{"embed", "--device", "cpu", "-q", "--plain", "--exact"};
  all.insert(all.end(), flags.begin(), flags.end());
  return Json::parse(output(all))["embedding"].get<std::vector<double>>();
}

TEST_CASE("a vector is what is pooled of the reference's hidden rows") {
  const std::string text = "Once upon a time there was a little dog.";
  const Matrix rows = reference_rows(text);
  for (const std::string pooling : {"mean", "last", "cls"}) {
    CAPTURE(pooling);
    const std::vector<double> expected = pooled(rows, pooling);
    const auto raw = embedding_of({"-p", text, "--pooling", pooling, "--no-normalize"});
    CHECK(distance(raw, expected) <= 1e-4 * length(expected));
    const auto unit = embedding_of({"-p", text, "--pooling", pooling});
    CHECK(length(unit) == Approx(1).margin(1e-6));
    CHECK(unit[5] == Approx(expected[5] / length(expected)).margin(1e-5));
    const auto cut = embedding_of({"-p", text, "--pooling", pooling, "--dimensions", "8"});
    CHECK(cut.size() == 8);
    CHECK(length(cut) == Approx(1).margin(1e-6));
    CHECK(cut[3] / cut[2] == Approx(expected[3] / expected[2]).epsilon(1e-3));
  }
}

TEST_CASE("the results of embed have OpenAI's form, keep the order, and name what is wrong") {
  const EmbedFiles files(
      R"({"custom_id": "a", "method": "POST", "url": "/v1/embeddings", )"
      R"("body": {"model": "m", "input": ["Once upon", "The sea"], "dimensions": 3}})"
      "\n"
      R"({"id": 7, "input": [5, 6, 7], "encoding_format": "base64", "speed": 1})"
      "\n"
      R"({"input": []})"
      "\n"
      R"({"input": "x", "dimensions": 100000})"
      "\n"
      R"({"input": [99999]})"
      "\n"
      R"({"prompt": "x"})"
      "\n"
      R"({"custom_id": "u", "url": "/v1/completions", "body": {"prompt": "x"}})"
      "\n"
      R"({"input": "x", "encoding_format": "hex"})"
      "\n"
      R"({"query": "x", "documents": "y"})"
      "\n");
  CHECK(files.run({"-o", files.out}).code == 5);
  const std::vector<Json> lines = json_lines<Json>(read_file(files.out));
  REQUIRE(lines.size() == 9);
  const Json& body = lines[0]["response"]["body"];
  CHECK(lines[0]["custom_id"] == "a");
  CHECK(body["object"] == "list");
  CHECK(body["model"] == "m");
  CHECK(body["data"][1]["index"] == 1);
  CHECK(body["data"][1]["embedding"].size() == 3);
  CHECK(body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"]);
  CHECK(vector_of_base64(lines[1]["response"]["body"]["data"][0]["embedding"]).size() > 3);
  const auto error = [&](size_t i) { return lines[i]["error"]["message"].get<std::string>(); };
  CHECK(has(error(2), "field 'input': expected a text, a list of token ids"));
  CHECK(has(error(3), "field 'dimensions': the model's vectors have"));
  CHECK(has(error(4), "outside of the model's vocabulary"));
  CHECK(has(error(5), "expected 'input', or 'query' and 'documents'"));
  CHECK(has(error(6), "expected /v1/embeddings or /v1/rerank, found '/v1/completions'"));
  CHECK(has(error(7), "float or base64"));
  CHECK(has(error(8), "a list of texts"));

  // Neighbours change nothing, and a run that was cut off goes on.
  const std::string whole = read_file(files.out);
  CHECK(files.run({"-o", files.out}).code == 2);
  files.folder.write("out.jsonl", std::string_view(whole).substr(0, whole.find('\n') + 40));
  CHECK(files.run({"-o", files.out, "--resume", "--rows", "2"}).code == 5);
  CHECK(read_file(files.out) == whole);
  const Outcome other = files.run({"-o", files.out, "--resume", "--pooling", "mean"});
  CHECK(other.code == 2);
  CHECK(has(other.err, "pooling"));
}

TEST_CASE("documents are ranked by the cosine of their vectors with the query's") {
  const EmbedFiles files(R"({"id": 1, "query": "A dog ran", "top_n": 2, "return_documents": true, )"
                         R"("documents": ["The sea was blue", "A dog ran", {"text": "A cat ran"}]})"
                         "\n"
                         R"({"id": 2, "input": ["A dog ran", "A cat ran"]})"
                         "\n");
  REQUIRE(files.run({"-o", files.out, "--plain"}).code == 0);
  const std::vector<Json> lines = json_lines<Json>(read_file(files.out));
  const Json& results = lines[0]["results"];
  REQUIRE(results.size() == 2);
  CHECK(results[0]["index"] == 1);
  CHECK(results[0]["relevance_score"].get<double>() == Approx(1).margin(1e-6));
  CHECK(results[0]["document"]["text"] == "A dog ran");
  const auto a = lines[1]["embeddings"][0].get<std::vector<float>>();
  const auto b = lines[1]["embeddings"][1].get<std::vector<float>>();
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += double{a[i]} * b[i];
  if (results[1]["index"] == 2) {
    CHECK(results[1]["relevance_score"].get<double>() == Approx(dot).margin(1e-5));
  }
}

TEST_CASE("a .npy has a row for each text, and is written only if every text has one") {
  const EmbedFiles files("Once upon\nThe sea\nA dog\n");
  REQUIRE(files.run({"--text", "-o", files.npy, "--dimensions", "6"}).code == 0);
  CHECK(read_file(files.npy).substr(0, 8) == std::string("\x93NUMPY\x01\0", 8));
  CHECK(read_file(files.npy).size() == 128 + 3 * 6 * sizeof(float));
  const Matrix matrix = read_npy(files.npy);
  CHECK(matrix.rows == 3);
  CHECK(matrix.cols == 6);
  CHECK(!fs::exists(files.npy + ".jsonl"));
  CHECK(fs::exists(files.npy + ".manifest.json"));
  REQUIRE(files.run({"--text", "-o", files.out, "--dimensions", "6", "--plain"}).code == 0);
  const std::vector<Json> lines = json_lines<Json>(read_file(files.out));
  for (int64_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 6; ++i) {
      CHECK(lines[static_cast<size_t>(row)]["embedding"][i].get<float>() == matrix.row(row)[i]);
    }
  }
  check_refused(files.run({"--text", "-o", files.npy}), 2, "is there already");

  const std::string bad = (files.folder.path() / "bad.npy").string();
  files.folder.write("in.jsonl", R"({"id": 1, "input": ["a", "b"]})"
                                 "\n"
                                 R"({"id": 2, "input": 5})"
                                 "\n");
  const Outcome outcome = files.run({"-o", bad});
  CHECK(outcome.code == 5);
  CHECK(has(outcome.err, "go on with --resume"));
  CHECK(!fs::exists(bad));
  files.folder.write("in.jsonl", R"({"id": 1, "input": ["a", "b"]})"
                                 "\n"
                                 R"({"id": 2, "input": "c"})"
                                 "\n");
  CHECK(files.run({"-o", bad, "--resume"}).code == 0);
  CHECK(read_npy(bad).rows == 3);
}

TEST_CASE("a text longer than the context is an error, or loses its end") {
  std::string text = "Once";
  for (int i = 0; i < 40; ++i) text += " upon a time";
  const EmbedFiles files(text + "\n");
  CHECK(files.run({"--text", "-c", "64", "-o", files.out, "--plain"}).code == 5);
  CHECK(json_lines<Json>(read_file(files.out))[0]["error"]["code"] == "context_length_exceeded");
  fs::remove(files.out);
  CHECK(files
            .run({"--text", "-c", "64", "-o", files.out, "--plain", "--on-overflow",
                  "truncate-right"})
            .code == 0);
  const Json line = json_lines<Json>(read_file(files.out))[0];
  CHECK(line["prompt_tokens"] == 64);
  CHECK(line["truncated_prompt_tokens"].get<int>() > 0);
}

// A model's folder with files of sentence-transformers beside it.
struct Folder {
  TempFolder folder;
  fs::path path = folder.path() / "model";
  Folder() {
    make_folder(path, "llama-mha");
    fs::create_directory(path / "1_Pooling");
  }
  void write(const std::string& name, const std::string& text) {
    folder.write("model/" + name, text);
  }
  EmbedChoice choose(const EmbedFlags& flags = {}) const {
    return choose_embedding(open_model(path), flags);
  }
};

TEST_CASE("the model's files say how texts become vectors, and flags go before them") {
  Folder model;
  CHECK(model.choose() == EmbedChoice{});
  model.write("1_Pooling/config.json",
              R"({"word_embedding_dimension": 64, "pooling_mode_cls_token": false,
                  "pooling_mode_mean_tokens": true, "include_prompt": true})");
  CHECK(model.choose().pooling == Pooling::Mean);
  CHECK(model.choose().normalize);
  model.write("modules.json",
              R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                  {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  CHECK(model.choose().pooling == Pooling::Mean);
  CHECK(!model.choose().normalize);
  CHECK(model.choose({.normalize = true}).normalize);
  CHECK(model.choose({.pooling = "cls"}).pooling == Pooling::First);
  model.write("config_sentence_transformers.json",
              R"({"prompts": {"query": "Query: ", "document": "Text: "},
                  "default_prompt_name": "document"})");
  CHECK(model.choose().prefix == "Text: ");
  CHECK(model.choose({.prompt_name = "query"}).prefix == "Query: ");
  CHECK(model.choose().query_prefix == "Query: ");
  CHECK(model.choose({.prefix = "", .has_prefix = true}).prefix.empty());
  CHECK(has(error_text([&] { model.choose({.prompt_name = "q"}); }, Exit::Usage),
            "the model has these prompts: document, query"));
  model.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  CHECK(model.choose().pooling == Pooling::Last);
  for (const auto& [config, says] :
       {std::pair(R"({"pooling_mode_max_tokens": true})", "'pooling_mode_max_tokens'"),
        std::pair(R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})",
                  "is a pooling without support"),
        std::pair(R"({"pooling_mode": "weightedmean"})", "'weightedmean'"),
        std::pair(R"({"pooling_mode_mean_tokens": 3})", "pooling_mode_mean_tokens"),
        std::pair(R"({"pooling_mode_mean_tokens": true, "include_prompt": false})",
                  "'include_prompt' is false")}) {
    CAPTURE(config);
    model.write("1_Pooling/config.json", config);
    CHECK(has(error_text([&] { model.choose(); }, Exit::Model), says));
  }
  model.write("modules.json", R"([{"type": "sentence_transformers.models.Dense"}])");
  CHECK(has(error_text([&] { model.choose(); }, Exit::Model), "the module 'Dense'"));
  model.write("modules.json", R"({"a": [)");
  CHECK(has(error_text([&] { model.choose(); }, Exit::Model), "expected a list of modules"));
}

TEST_CASE("a GGUF names its pooling") {
  const auto chosen = [](uint32_t type) {
    TempFolder folder;
    GgufWriter w;
    add_flat_keys(w, 512);
    w.u32("llama.pooling_type", type);
    add_byte_vocabulary(w, "x");
    add_flat_weights(w, kByteVocab);
    return choose_embedding(open_model(folder.write("model.gguf", w.file())), {}).pooling;
  };
  CHECK(chosen(0) == Pooling::Last);
  CHECK(chosen(1) == Pooling::Mean);
  CHECK(chosen(2) == Pooling::First);
  CHECK(chosen(3) == Pooling::Last);
  CHECK(has(error_text([&] { chosen(4); }, Exit::Model), "llama.pooling_type"));
}

// The model's tensors with other names. A name must not become longer.
void rename_tensors(const fs::path& file,
                    const std::vector<std::pair<std::string, std::string>>& names) {
  std::string bytes = read_file(file.string());
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  std::string header = bytes.substr(sizeof size, size);
  for (const auto& [from, to] : names) {
    for (size_t at = 0; (at = header.find('"' + from, at)) != header.npos; ++at) {
      header.replace(at + 1, from.size(), to);
    }
  }
  header.resize(size, ' ');
  std::ofstream(file, std::ios::binary)
      << bytes.substr(0, sizeof size) << header << bytes.substr(sizeof size + size);
}

TEST_CASE("a folder that was saved without its head gives vectors, but no text") {
  Folder model;
  const std::string path = model.path.string();
  const std::vector<double> expected = embedding_of({path, "-p", "Once upon a time"});
  rename_tensors(model.path / "model.safetensors", {{"model.", ""}});
  CHECK(embedding_of({path, "-p", "Once upon a time"}) == expected);
  CHECK(skald({"run", "-m", path, "-n", "1", "-p", "a"}).code == 0);  // it still has a head
  rename_tensors(model.path / "model.safetensors", {{"lm_head.weight", "unused"}});
  CHECK(embedding_of({path, "-p", "Once upon a time"}) == expected);
  for (const char* command : {"run", "bench", "diff", "score"}) {
    check_refused(skald({command, "-m", path}, "a"), 3, "has no head (lm_head.weight)");
  }
  const std::string gguf = (model.folder.path() / "x.gguf").string();
  check_refused(skald({"quantize", path, gguf, "--type", "q8_0"}), 3, "has no head");
  CHECK(skald({"inspect", path}).code == 0);
  const EmbedFiles files(R"({"input": "Once"})"
                         "\n"
                         R"({"prompt": "Once"})"
                         "\n");
  const Outcome outcome = skald({"batch", "-m", path, "--plain", "-q", "-i", files.in});
  CHECK(outcome.code == 5);
  const std::vector<Json> lines = json_lines<Json>(outcome.out);
  CHECK(lines[0].contains("embedding"));
  CHECK(has(lines[1]["error"]["message"].get<std::string>(), "the model has no head"));
}

TEST_CASE("base64 of vectors is that of their bytes") {
  const std::vector<float> vector{1, -2, 0.5f, 3e-9f, 7};
  for (size_t count = 0; count <= vector.size(); ++count) {
    const std::vector<float> part(vector.begin(), vector.begin() + static_cast<int64_t>(count));
    CHECK(vector_of_base64(base64_of(part)) == part);
  }
  CHECK(base64_of(std::vector<float>{1}) ==
        "AACAPw==");  // as Python's base64.b64encode() writes it
  CHECK(vector_of_base64("!").empty());
  CHECK(vector_of_base64("AAA=").empty());
}

TEST_CASE("embed refuses what it cannot do") {
  check_refused(skald({"embed", "-p", "a", "--text"}), 2, "--text");
  check_refused(skald({"embed", "-p", "a", "--dimensions", "5000"}), 2, "--dimensions 5000");
  check_refused(skald({"embed", "-p", "a", "--prompt-name", "q"}), 2, "the model has no prompts");
  check_refused(skald({"embed", "-p", "a", "--plain", "-o", "/tmp/x.npy"}), 2, "--plain");
  CHECK(skald({"embed", "-p", "a", "-i", "b"}).code == 2);
  CHECK(skald({"embed", "-p", "a", "--pooling", "max"}).code == 2);
  CHECK(skald({"embed", "-p", "a", "--normalize", "--no-normalize"}).code == 2);
}

}  // namespace
}  // namespace skald::test
