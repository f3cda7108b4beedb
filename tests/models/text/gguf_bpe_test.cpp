// Models with a byte-level BPE tokenizer, tested through the program.
#include <map>

#include "tests/bpe_models.h"
#include "tests/program_output.h"
#include "tests/tokenizer/falcon_data.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

std::string lines_of(const Json& variant, const Json& texts) {
  std::string out;
  for (size_t i = 0; i < texts.size(); ++i) {
    out += Json({{"text", texts[i]}, {"ids", variant["ids"][i]}}).dump() + "\n";
  }
  return out;
}

TEST_CASE("a GGUF that names its rules gives the ids of the tokenizer.json with these rules") {
  const Json golden = Json::parse(read_file(data_dir() / "tokenizer" / "hf.golden.json"));
  TempFolder folder;
  int checked = 0;
  for (const Json& variant : golden["variants"]) {
    const std::string name = variant["name"];
    // Only what a GGUF can say: a name, and no tokens beside the vocabulary's.
    if (!variant.contains("cuts") || variant["parts"]["added_tokens"].size() > 3) continue;
    GgufBpe bpe = gguf_bpe_of(byte_tokenizer());
    bpe.pre = name;
    const std::string model = folder.write("model.gguf", bpe_gguf(bpe)).string();
    const std::string file = folder.write("ids.jsonl", lines_of(variant, golden["texts"])).string();
    CAPTURE(name);
    CHECK(output({"tokenize", model, "--check", file, "--special"}) ==
          concat(golden["texts"].size(), " texts, 0 differ\n"));
    ++checked;
  }
  CHECK(checked == 13);
}

TEST_CASE("Falcon's GGUF and Falcon's folder each give the tokens of their reference") {
  TempFolder folder;
  const Json json = falcon_json(kFalconMerges, falcon_steps());
  std::string of_folder, of_gguf;
  for (const FalconCase& one : kFalconCases) {
    const auto line = [&](const std::string& pieces) {
      Json ids = Json::array();
      for (const std::string& piece : words_of(pieces)) {
        ids.push_back(json["model"]["vocab"][piece]);
      }
      return Json({{"text", one.text}, {"ids", ids}}).dump() + "\n";
    };
    of_folder += line(one.folder);
    of_gguf += line(one.gguf.empty() ? one.folder : one.gguf);
  }
  GgufBpe bpe = gguf_bpe_of(json);
  bpe.pre = "falcon";
  bpe.eos = 0;
  const auto checked = [&](const std::filesystem::path& model, const std::string& lines) {
    return output(
        {"tokenize", model.string(), "--check", folder.write("ids.jsonl", lines).string()});
  };
  const std::string all = concat(kFalconCases.size(), " texts, 0 differ\n");
  CHECK(checked(folder.write("tokenizer.json", json.dump()), of_folder) == all);
  CHECK(checked(folder.write("model.gguf", bpe_gguf(bpe)), of_gguf) == all);
}

TEST_CASE("published BPEs give the reference's ids from a GGUF too") {
  TempFolder folder;
  for (const auto& [name, pre] : std::map<std::string, std::string>{{"llama3", "llama-bpe"},
                                                                    {"bpe-llama3-1k", "llama-bpe"},
                                                                    {"bpe-qwen2-1k", "qwen2"},
                                                                    {"bpe-gpt2-1k", "gpt-2"}}) {
    const std::string path = "tokenizers/" + name;
    if (!have_shared(path + "-tokenizer.json")) return;
    const auto file = [&](const char* end) {
      return Json::parse(read_file(shared_dir() / (path + end)));
    };
    GgufBpe bpe = gguf_bpe_of(file("-tokenizer.json"));
    bpe.pre = pre;
    bpe.eos = bpe.bos;
    const Json cases = file(".golden.json")["cases"];
    std::string lines;
    for (const Json& one : cases) {
      lines += Json({{"text", one["text"]}, {"ids", one["ids"]}}).dump() + "\n";
    }
    const std::string model = folder.write("model.gguf", bpe_gguf(bpe)).string();
    const std::string ids = folder.write("ids.jsonl", lines).string();
    CAPTURE(name);
    CHECK(output({"tokenize", model, "--check", ids, "--special"}) ==
          concat(cases.size(), " texts, 0 differ\n"));
  }
}

TEST_CASE("tokenize --check reports differing ids, and its exit code says whether there are any") {
  TempFolder folder;
  const std::string json = (data_dir() / "tokenizer" / "byte.tokenizer.json").string();
  const auto check = [&](const std::string& lines, int code) {
    const std::string file = folder.write("ids.jsonl", lines).string();
    const Outcome outcome = skald({"tokenize", json, "--check", file});
    CHECK(outcome.code == code);
    return code == 2 ? outcome.err : outcome.out;
  };
  const std::string good =
      R"({"text": "ab", "ids": [)" +
      Json::parse("[" + output({"tokenize", json, "ab"}) + "]").dump().substr(1) +
      ", \"more\": 1}\n";
  CHECK(check(good + "\n" + good, 0) == "2 texts, 0 differ\n");
  const std::string report = check(good + "{\"text\": \"ab\", \"ids\": [5, 6]}\n", 1);
  CHECK(has(report, "line 2: token 0 is "));
  CHECK(has(report, "expected 5 "));
  CHECK(has(report, "in 'ab'\n2 texts, 1 differs\n"));
  CHECK(has(check("{\"text\": \"\", \"ids\": [7]}", 1), "is the end, expected 7"));
  for (const char* bad :
       {"5", "{}", "{\"text\": 5, \"ids\": []}", "{\"text\": \"\", \"ids\": 1}",
        "{\"text\": \"\", \"ids\": [1.5]}", "{\"text\": \"\", \"ids\": [1e99]}", "", "{"}) {
    CAPTURE(bad);
    check(bad, 2);
  }
  CHECK(skald({"tokenize", json, "--check", "/nowhere"}).code == 2);
  CHECK(skald({"tokenize", json, "--check", "/nowhere", "text"}).code == 2);
}

TEST_CASE("a model with a byte-level BPE generates text") {
  TempFolder folder;
  GgufBpe bpe = gguf_bpe_of(byte_tokenizer());
  const std::string model = folder.write("model.gguf", bpe_gguf(bpe)).string();
  const Outcome ids = skald({"tokenize", model, "\xF0\x9F\xA6\x80", "--pieces"});
  CHECK(ids.code == 0);
  const std::string first = output({"tokenize", model, "!"});
  const std::string bias = first.substr(0, first.find('\n')) + "+5";
  CHECK(output({"run", "-m", model, "-p", "Hello", "-n", "3", "--temp", "0", "--logit-bias",
                bias}) == "!!!");
  const std::string info = output({"inspect", model});
  CHECK(has(info, "byte-level BPE, 1000 pieces, bos 0 <|endoftext|>, eos 2 <|im_end|>"));
  CHECK(has(info, "stop 0 <|endoftext|>"));
}

TEST_CASE(
    "a Hugging Face folder runs with its tokenizer.json, which has priority over tokenizer.model") {
  TempFolder folder;
  make_folder(folder.path() / "model", "llama-mha");
  const std::string model = (folder.path() / "model").string();
  const std::string before = output({"tokenize", model, "the fox"});
  std::filesystem::copy_file(data_dir() / "tokenizer" / "spm.tokenizer.json",
                             folder.path() / "model" / "tokenizer.json");
  // This file has no decoder.
  const Outcome refused = skald({"run", "-m", model, "-p", "the fox", "-n", "3"});
  CHECK(refused.code == 3);
  CHECK(has(refused.err, "tokenizer.json: decoder: is null"));
  Json json = Json::parse(read_file(folder.path() / "model" / "tokenizer.json"));
  json["decoder"] = Json::parse(R"({"type": "ByteFallback"})");
  folder.write("model/tokenizer.json", json.dump());
  folder.write("model/tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": true})");
  const std::string ids = output({"tokenize", model, "the fox"});
  CHECK(ids != before);
  CHECK(ids.starts_with("1 "));
  CHECK(output({"tokenize", model + "/tokenizer.json", "the fox"}) == ids);
  CHECK(output({"run", "-m", model, "-p", "the fox", "-n", "5", "--temp", "0"}).size() > 0);
  // With another kind of tokenizer.json, tokenizer.model is used.
  folder.write("model/tokenizer.json", R"({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}})");
  CHECK(output({"tokenize", model, "the fox", "--no-bos"}).size() > 1);
  std::filesystem::remove(folder.path() / "model" / "tokenizer.model");
  CHECK(has(skald({"tokenize", model, "x"}).err,
            "is not a BPE tokenizer; expected one, or a tokenizer.model beside it"));
}

TEST_CASE("an unusable BPE in a GGUF is refused in one line") {
  TempFolder folder;
  const auto refusal = [&](const std::function<void(GgufBpe&)>& change) {
    GgufBpe bpe = gguf_bpe_of(byte_tokenizer());
    change(bpe);
    const Outcome outcome =
        skald({"tokenize", folder.write("model.gguf", bpe_gguf(bpe)).string(), "x"});
    CHECK(outcome.code == (outcome.err.empty() ? 0 : 3));
    return outcome.err;
  };
  CHECK(has(refusal([](GgufBpe& b) { b.pre = ""; }), "tokenizer.ggml.pre is missing"));
  CHECK(has(refusal([](GgufBpe& b) { b.pre = "odd\x1b"; }), "tokenizer.ggml.pre is 'odd\\x1b'"));
  CHECK(has(refusal([](GgufBpe& b) { b.merges[3] = "ab"; }), "merges: 3 is 'ab'"));
  CHECK(has(refusal([](GgufBpe& b) { b.merges[3] = "a "; }), "merges: 3 is 'a '"));
  CHECK(has(refusal([](GgufBpe& b) { b.merges[3] = "a zzz"; }), "merge 3, 'a' and 'zzz'"));
  CHECK(has(refusal([](GgufBpe& b) { b.types.pop_back(); }), "999 token types for 1000 tokens"));
  CHECK(has(refusal([](GgufBpe& b) { b.eos = 1000; }), "the eos token is 1000"));
  // Repeated and empty pieces occur in published files.
  CHECK(refusal([](GgufBpe& b) {
          b.pieces[900] = b.pieces[899] = "same";
          b.merges.clear();
        }) == "");
  CHECK(refusal([](GgufBpe& b) {
          b.pieces[999] = "";
          b.merges.clear();
        }) == "");
}

}  // namespace
}  // namespace skald::test
