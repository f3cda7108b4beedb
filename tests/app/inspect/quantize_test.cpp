// skald quantize, and --type of other commands.
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "models/files/gguf.h"
#include "models/open.h"
#include "tests/bpe_models.h"
#include "tests/gguf_writer.h"
#include "tests/program_output.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string demo() { return (source_dir() / "models" / "demo").string(); }

Outcome quantize(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "quantize");
  return skald(arguments);
}

std::string story(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--temp", "0", "-n", "40", "-p", "Once upon a time"});
  arguments.insert(arguments.begin(), "run");
  return output(arguments);
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST_CASE("the bundled model as a GGUF generates the same text and the same ids") {
  TempFolder folder;
  const std::string f32 = (folder.path() / "f32.gguf").string();
  CHECK(has(output({"quantize", demo(), f32, "--type", "f32"}), "32.00 bits a weight"));
  CHECK(story({"-m", f32}) == story({}));
  const std::string texts =
      "\"Once upon a time\"\n\"  two  spaces\\n\\nlines\"\n\"naïve 中文 "
      "🙂\"\n\"<s></s>\"\n\"\"\n";
  for (const char* special : {"--jsonl", "--special"}) {
    std::vector<std::string> arguments = {"tokenize", demo(), "--jsonl"};
    if (std::string(special) != "--jsonl") arguments.push_back(special);
    const std::string expected = skald(arguments, texts).out;
    arguments[1] = f32;
    CHECK(skald(arguments, texts).out == expected);
    CHECK(std::count(expected.begin(), expected.end(), '\n') == 5);
  }
  // The permissions of a new file, not those of a private temporary one.
  CHECK(fs::status(f32).permissions() == fs::status(folder.write("new", "")).permissions());
  const Json a = Json::parse(output({"inspect", demo(), "--json"}));
  const Json b = Json::parse(output({"inspect", f32, "--json"}));
  CHECK(a["config"] == b["config"]);
  for (const char* key : {"vocab", "bos", "eos", "unk", "pad", "add_bos", "add_eos"}) {
    CHECK(a["tokenizer"][key] == b["tokenizer"][key]);
  }
}

TEST_CASE("every type is written as --dry-run announces, and can be read") {
  TempFolder folder;
  for (const char* type :
       {"f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q5_k_s", "q5_1", "q5_0", "q4_k_m", "q4_k_s",
        "q4_1", "q4_0", "iq4_nl", "iq4_xs", "q2_k", "q2_k_s"}) {
    CAPTURE(type);
    const std::string out = (folder.path() / (std::string(type) + ".gguf")).string();
    const Json plan =
        Json::parse(output({"quantize", demo(), "--type", type, "--dry-run", "--json"}));
    CHECK_FALSE(fs::exists(out));
    CHECK(plan["written"] == false);
    const Json done = Json::parse(output({"quantize", demo(), out, "--type", type, "--json"}));
    CHECK(done["written"] == true);
    CHECK(done["tensors"] == plan["tensors"]);
    CHECK(fs::file_size(out) == plan["bytes"].get<uint64_t>());
    const Json seen = Json::parse(output({"inspect", out, "--json"}));
    REQUIRE(seen["tensors"].size() == plan["tensors"].size());
    for (size_t i = 0; i < seen["tensors"].size(); ++i) {
      CHECK(seen["tensors"][i]["name"] == plan["tensors"][i]["name"]);
      CHECK(seen["tensors"][i]["type"] == plan["tensors"][i]["to"]);
      CHECK(seen["tensors"][i]["shape"] == plan["tensors"][i]["shape"]);
    }
    CHECK(story({"-m", out}).size() > 20);
  }
}

TEST_CASE("the file does not depend on the number of threads") {
  TempFolder folder;
  std::string files[2];
  for (int i = 0; i < 2; ++i) {
    const std::string out = (folder.path() / std::to_string(i)).string();
    output({"quantize", demo(), out, "--type", "q4_k_m", "-t", i == 0 ? "1" : "3"});
    files[i] = read_file(out);
  }
  CHECK(files[0] == files[1]);
}

TEST_CASE("quantizing a GGUF equals quantizing the folder that the GGUF was made of") {
  TempFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  output({"quantize", demo(), path("f16.gguf"), "--type", "f16"});
  output({"quantize", demo(), path("a.gguf"), "--type", "q5_0"});
  output({"quantize", path("f16.gguf"), path("b.gguf"), "--type", "q5_0"});
  const auto a = open_model(path("a.gguf")), b = open_model(path("b.gguf"));
  REQUIRE(a.model.weights->tensors().size() == b.model.weights->tensors().size());
  for (const Tensor& tensor : a.model.weights->tensors()) {
    const Tensor* other = b.model.weights->find(tensor.name);
    REQUIRE(other);
    CHECK(std::equal(tensor.view.data, tensor.view.data + tensor.view.bytes(), other->view.data));
  }
}

TEST_CASE("a byte-level BPE is stored in the GGUF") {
  TempFolder temp;
  const fs::path folder = temp.path() / "model";
  const std::string golden = "llama-mha";
  make_folder(folder, golden);
  fs::remove(folder / "tokenizer.model");
  Json json = byte_tokenizer();  // cut below to the 512 rows of the model
  Json vocabulary = Json::object(), merges = Json::array();
  for (const auto& [piece, id] : json["model"]["vocab"].items()) {
    if (id.get<int>() < 500) vocabulary[piece] = id;
  }
  for (const auto& merge : json["model"]["merges"]) {
    const std::string joined = merge[0].get<std::string>() + merge[1].get<std::string>();
    if (vocabulary.contains(joined)) merges.push_back(merge);
  }
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = merges;
  json["model"]["ignore_merges"] = true;
  std::ofstream(folder / "tokenizer.json") << json.dump();
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"eos_token": "<|im_end|>", "chat_template": "{{ messages[0].content }}"})";
  const std::string out = (temp.path() / "m.gguf").string();
  output({"quantize", folder.string(), out, "--type", "f16"});
  const std::string texts = "\"It's 12345 lower case\"\n\"a\\n\\n  b\"\n\"<|im_end|>\"\n";
  CHECK(skald({"tokenize", out, "--jsonl", "--special"}, texts).out ==
        skald({"tokenize", folder.string(), "--jsonl", "--special"}, texts).out);
  const Json seen = Json::parse(output({"inspect", out, "--json"}));
  CHECK(seen["tokenizer"]["eos"]["piece"] == "<|im_end|>");
  CHECK(seen["tokenizer"]["vocab"] == 512);
  CHECK(seen["metadata"]["tokenizer.ggml.pre"] == "\"llama-bpe\"");
  CHECK(seen["chat_templates"][0]["name"] == "default");
}

TEST_CASE("quantize --tensor-type chooses formats by pattern, and the first match counts") {
  const Json plan = Json::parse(
      output({"quantize", demo(), "--type", "q4_0", "--dry-run", "--json", "--tensor-type",
              "blk\\.[01]\\.ffn_up=q8_0", "--tensor-type", "ffn_up=f16"}));
  int eights = 0, sixteens = 0;
  for (const Json& tensor : plan["tensors"]) {
    const std::string name = tensor["name"];
    if (name.find("ffn_up") == std::string::npos) continue;
    eights += tensor["to"] == "Q8_0";
    sixteens += tensor["to"] == "F16";
  }
  CHECK(eights == 2);
  CHECK(sixteens == 6);
  const std::vector<std::string> base = {demo(), "--type", "q4_0", "--dry-run", "--tensor-type"};
  const auto with = [&](const char* pattern) {
    auto arguments = base;
    arguments.push_back(pattern);
    return arguments;
  };
  check_refused(quantize(with("ffn_upp=q8_0")), 2, "'ffn_upp': matches no tensor");
  check_refused(quantize(with("norm=q8_0")), 2, "matches no tensor that can be quantized");
  check_refused(quantize(with("ffn_up")), 2, "expected PATTERN=TYPE");
  check_refused(quantize(with("ffn_up=iq1_s")), 2, "expected a type among f32, f16");
  check_refused(quantize(with("(=q8_0")), 2, "--tensor-type");
}

TEST_CASE("quantize --imatrix weighs the errors of columns, and the file says so") {
  TempFolder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  output({"quantize", demo(), at("f32"), "--type", "f32"});
  const auto model = open_model(at("f32")).model;
  const Tensor& up = *model.weights->find("blk.0.ffn_up.weight");
  const auto imatrix = [&](int64_t cols) {
    GgufWriter w;
    w.text("general.type", "imatrix");
    w.strings("imatrix.datasets", {"some.txt"});
    w.u32("imatrix.chunk_count", 3);
    std::string sums;
    for (int64_t i = 0; i < cols; ++i) sums += raw(i % 8 == 3 ? 200.0f : 2.0f);
    w.tensors.push_back({up.name + ".in_sum2", {static_cast<uint64_t>(cols), 1}, 0, sums});
    w.tensors.push_back({up.name + ".counts", {1, 1}, 0, raw(2.0f)});
    return folder.write("imatrix.gguf", w.file()).string();
  };
  const std::string file = imatrix(up.view.cols);
  const Outcome made =
      quantize({demo(), at("weighed"), "--type", "q4_0", "--imatrix", file, "--json"});
  CHECK(made.code == 0);
  CHECK(has(made.err, "has no importances of "));
  CHECK(has(made.err, "tensors that are quantized, such as "));
  for (const Json& tensor : Json::parse(made.out)["tensors"]) {
    CHECK(tensor["importances"] == (tensor["name"] == up.name));
  }
  output({"quantize", demo(), at("plain"), "--type", "q4_0"});
  const auto gguf = open_gguf(at("weighed")), plain = open_gguf(at("plain"));
  CHECK(gguf->metadata().text("quantize.imatrix.file") == file);
  CHECK(gguf->metadata().text("quantize.imatrix.dataset") == "some.txt");
  CHECK(gguf->metadata().uint("quantize.imatrix.entries_count") == 1);
  CHECK(gguf->metadata().uint("quantize.imatrix.chunks_count") == 3);
  CHECK_FALSE(plain->metadata().find("quantize.imatrix.file"));

  // The errors of the important columns are smaller, those of the others larger.
  const auto errors = [&](const GgufFile& from) {
    std::pair<double, double> sums;
    const Tensor& tensor = *from.find(up.name);
    std::vector<float> row(static_cast<size_t>(up.view.cols)), exact = row;
    std::vector<std::byte> scratch;
    for (int64_t r = 0; r < up.view.rows; ++r) {
      tensor.view.decode_row(r, row.data(), scratch);
      up.view.decode_row(r, exact.data(), scratch);
      for (size_t i = 0; i < row.size(); ++i) {
        const double error = std::pow(double{row[i]} - exact[i], 2);
        (i % 8 == 3 ? sums.first : sums.second) += error;
      }
    }
    return sums;
  };
  const auto weighed = errors(*gguf), equal = errors(*plain);
  CHECK(weighed.first < 0.5 * equal.first);
  CHECK(weighed.second > equal.second);

  // A file that is quantized again keeps no word of the importances.
  output({"quantize", at("weighed"), at("again"), "--type", "q8_0", "--requantize"});
  CHECK_FALSE(open_gguf(at("again"))->metadata().find("quantize.imatrix.file"));

  const auto refused = [&](const std::string& path) {
    const Outcome outcome = quantize({demo(), at("none"), "--type", "q4_0", "--imatrix", path});
    CHECK(outcome.code == 3);
    CHECK_FALSE(fs::exists(at("none")));
    return outcome.err;
  };
  CHECK(has(refused(imatrix(up.view.cols + 32)), "'blk.0.ffn_up.weight' has "));
  CHECK(has(refused(folder.write("text", "importances").string()), "incomplete or damaged"));
  CHECK(has(refused(at("absent")), "absent"));
  GgufWriter other;
  other.text("general.type", "imatrix");
  other.tensors.push_back({"x.in_sum2", {4, 1}, 0, std::string(16, '\0')});
  other.tensors.push_back({"x.counts", {1, 1}, 0, raw(2.0f)});
  CHECK(has(refused(folder.write("other", other.file()).string()), "it is of another model"));
}

TEST_CASE("quantized weights are quantized again only with --requantize") {
  TempFolder folder;
  const std::string out = (folder.path() / "out.gguf").string();
  check_refused(quantize({small_gguf(), out, "--type", "q4_0"}), 2,
                "is Q8_0, and quantizing it again");
  output({"quantize", small_gguf(), out, "--type", "q8_0"});  // copies the weights unchanged
  CHECK(output({"run", "-m", out, "--temp", "0", "-n", "20", "-p", "a"}) ==
        output({"run", "-m", small_gguf(), "--temp", "0", "-n", "20", "-p", "a"}));
  output({"quantize", small_gguf(), out, "--type", "q4_0", "--requantize", "--force"});
}

TEST_CASE("an existing file is replaced only with --force, and never the model itself") {
  TempFolder folder;
  const std::string out = folder.write("out.gguf", "precious").string();
  check_refused(quantize({demo(), out, "--type", "q8_0"}), 2, "is there already; --force");
  CHECK(read_file(out) == "precious");
  output({"quantize", demo(), out, "--type", "q8_0", "--force"});
  check_refused(quantize({out, out, "--type", "q8_0", "--force"}), 2, "this is the model itself");
  fs::create_symlink(out, folder.path() / "link.gguf");
  check_refused(
      quantize({(folder.path() / "link.gguf").string(), out, "--type", "q8_0", "--force"}), 2,
      "this is the model itself");
  make_folder(folder.path() / "model", "llama-mha");
  check_refused(quantize({demo(), (folder.path() / "no" / "out.gguf").string(), "--type", "q8_0"}),
                1, "there is no folder");
  check_refused(quantize({demo(), folder.path().string(), "--type", "q8_0"}), 1, "is a folder");
  check_refused(quantize({demo(), "/dev/full", "--type", "q8_0", "--force"}), 1,
                "is no regular file");
}

TEST_CASE("without disk space nothing is left behind") {
  TempFolder folder;
  const std::string out = (folder.path() / "out.gguf").string();
  const std::string f16 = (folder.path() / "f16.gguf").string();
  output({"quantize", demo(), f16, "--type", "f16"});
  Invocation limited{{"quantize", f16, out, "--type", "bf16"}, ""};
  limited.file_size = 1 << 20;
  const Outcome outcome = run_program(limited);
  CAPTURE(outcome.err, outcome.signal);
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "cannot get 7.3 MiB of disk space: File too large"));
  limited.arguments[1] = demo();
  CHECK(run_program(limited).code == 1);
  CHECK(entries(folder.path()) == std::vector<std::string>{"f16.gguf"});
  if (::access("/proc/self/mountinfo", R_OK) == 0 && fs::exists("/sys/kernel")) {
    check_refused(quantize({demo(), "/sys/kernel/out.gguf", "--type", "f16"}), 1,
                  "/sys/kernel/out.gguf: ");
  }
}

TEST_CASE("a killed or interrupted run leaves no file that looks like a model") {
  TempFolder folder;
  for (const int signal : {SIGKILL, SIGINT}) {
    const std::string out = (folder.path() / concat("out", signal, ".gguf")).string();
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(1), ::close(2);
      exec_program({{"quantize", demo(), out, "--type", "q5_k_m", "-t", "1"}, ""});
    }
    const auto part = [&] {
      for (const std::string& name : entries(folder.path())) {
        if (name.ends_with(".part")) return folder.path() / name;
      }
      return fs::path();
    };
    int status = 0;
    while (part().empty() && ::waitpid(child, &status, WNOHANG) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(child, signal);
    ::waitpid(child, &status, 0);
    CHECK_FALSE(fs::exists(out));
    if (signal == SIGKILL) {
      REQUIRE_FALSE(part().empty());
      CHECK_FALSE(is_gguf(part()));
      fs::remove(part());
    } else {
      REQUIRE(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 130);
      CHECK(part().empty());
    }
  }
}

TEST_CASE("wrong arguments of quantize are named") {
  check_refused(quantize({}), 2, "no model given");
  check_refused(quantize({demo()}), 2, "no output file given");
  check_refused(quantize({demo(), "out.gguf"}), 2, "no --type given");
  check_refused(quantize({demo(), "out.gguf", "--type", "q9"}), 2,
                "unknown type 'q9'; these are: f32");
  check_refused(quantize({demo() + "x", "--type", "q8_0", "--dry-run"}), 3,
                "there is no such file");
  check_refused(quantize({demo(), "--type", "q8_0", "--dry-run", "-t", "-1"}), 2, "--threads");
  TempFolder folder;
  make_folder(folder.path() / "model", "llama-mha");
  check_refused(quantize({(folder.path() / "model").string(), "--type", "q8_0", "--dry-run"}), 3,
                "cannot write into a GGUF");
}

TEST_CASE("a run with --type generates the text of the quantized file") {
  TempFolder folder;
  const std::string out = (folder.path() / "out.gguf").string();
  for (const char* type : {"q8_0", "q4_k_m"}) {
    output({"quantize", demo(), out, "--type", type, "--force"});
    CHECK(story({"--type", type}) == story({"-m", out}));
  }
  CHECK(story({"--type", "q4_0"}) != story({}));
  const auto weights = [](const std::vector<std::string>& arguments) {
    const Json plan = Json::parse(output(arguments));
    for (const Json& part : plan["parts"]) {
      if (part["name"] == "weights") return part;
    }
    return Json();
  };
  const Json plain = weights({"plan", demo(), "--json"});
  const Json made = weights({"plan", demo(), "--type", "q4_0", "--json"});
  CHECK(plain["mapped"] == true);
  CHECK(made["mapped"] == false);
  CHECK(made["bytes"].get<int64_t>() < plain["bytes"].get<int64_t>() / 2);
  CHECK(has(output({"bench", "--type", "q8_0", "-p", "4", "-n", "0", "-r", "1"}), "as q8_0"));
  const Outcome wrong = skald({"run", "-m", small_gguf(), "--type", "q4_0", "-p", "a"});
  CHECK(wrong.code == 2);
  CHECK(has(wrong.err, "is Q8_0 already"));
  CHECK(skald({"run", "--type", "q3", "-p", "a"}).code == 2);
}

}  // namespace
}  // namespace skald::test
