// Gemma 4's tokenizer: a BPE over characters, which a GGUF stores with its merges.
#include <algorithm>

#include "models/files/memory_file.h"
#include "models/text/gguf_tokenizer.h"
#include "models/text/open_tokenizer.h"
#include "tests/family_golden.h"
#include "tests/tokenizer/files/hf_data.h"

namespace skald::test {

using Json = nlohmann::json;

TEST_CASE("Gemma 4's tokenizer keeps its merges in a GGUF, and gives the same ids") {
  if (find_golden("gemma4-moe").empty()) return;
  TempFolder temp;
  const fs::path folder = copy_golden(temp, "gemma4-moe");
  Json json = hf_json("spm");
  const Json space = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  json["normalizer"] = space;
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}}}}};
  // Published files do not mark it as special.
  const int32_t tool_response = static_cast<int32_t>(json["model"]["vocab"].size());
  json["added_tokens"].push_back(
      {{"id", tool_response}, {"content", "<|tool_response>"}, {"special", false}});
  temp.write("m/tokenizer.json", json.dump());
  temp.write("m/tokenizer_config.json", R"({"bos_token": "<s>", "add_bos_token": true})");
  const OpenedModel opened = open_model(folder);
  const auto tokenizer = open_tokenizer(opened).tokenizer;

  GgufHead head;
  head.put_text("general.architecture", "gemma4");
  put_tokenizer(opened, head);
  const std::string text = head.text();
  const MemoryFile file(text, static_cast<int64_t>(text.size()));
  const auto gguf = open_gguf(file.path());
  CHECK(gguf->metadata().text("tokenizer.ggml.model") == "gemma4");
  CHECK(gguf->metadata().strings("tokenizer.ggml.merges").size() == json["model"]["merges"].size());
  const auto back = open_tokenizer(file.path());
  CHECK(back->special().add_bos);
  const auto stops = open_tokenizer(opened).stop_ids;
  CHECK(std::find(stops.begin(), stops.end(), tool_response) != stops.end());
  CHECK(back->is_control(tool_response));  // no user's text becomes it
  for (const char* sample :
       {"Once upon a time", "two  spaces", " naïve – 中文 🙂", "a\n\n\nb", ""}) {
    CAPTURE(sample);
    const std::vector<int32_t> ids = back->encode(sample);
    CHECK(ids == tokenizer->encode(sample));
    for (const int32_t id : ids) CHECK(back->piece_bytes(id) == tokenizer->piece_bytes(id));
  }
}

}  // namespace skald::test
