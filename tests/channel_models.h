// Models with the control tokens of gpt-oss' channels, which write what a test chooses. Weights are
// 0 but for a table of successors: after a token, the model writes the token that followed it in
// the script. A token that stands in the script several times needs kScripted: the penalty makes
// its successors come one after the other.
#pragma once

#include <algorithm>
#include <map>
#include <stdexcept>

#include "tests/small_models.h"

namespace skald::test {

// The flags with which a model writes its script.
inline const std::vector<std::string> kScripted{"--temp", "0", "--presence-penalty", "2"};

inline const std::vector<std::string> kChannelTokens{"<|start|>",    "<|channel|>", "<|message|>",
                                                     "<|end|>",      "<|return|>",  "<|call|>",
                                                     "<|constrain|>"};

// Ends as gpt-oss' template does: the first successor is that of the byte "t".
inline constexpr const char* kChannelTemplate =
    "{% for m in messages %}<|start|>{{ m.role }}"
    "{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";

struct ChannelModel {
  std::vector<std::string> script;  // tokens: pieces of kChannelTokens, "</s>", or any text
  std::string chat_template = kChannelTemplate;
  std::vector<std::string> control_pieces = kChannelTokens;
};

// The id of a token of the script: texts of one byte are byte tokens, other texts get their own.
inline std::string channel_gguf(const ChannelModel& model) {
  std::vector<std::string> pieces{"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types{2, 3, 3};
  std::map<std::string, uint32_t> ids{{"</s>", 2}};
  const auto add = [&](const std::string& piece, int32_t type) {
    if (ids.contains(piece)) return;
    ids[piece] = static_cast<uint32_t>(pieces.size());
    pieces.push_back(piece);
    types.push_back(type);
  };
  for (int byte = 0; byte < 256; ++byte) {
    char piece[16];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    ids[std::string(1, static_cast<char>(byte))] = static_cast<uint32_t>(pieces.size());
    pieces.push_back(piece);
    types.push_back(6);
  }
  add("\u2581", 1);  // a space
  for (const std::string& piece : model.control_pieces) add(piece, 3);
  for (const std::string& piece : model.script) add(piece, 1);

  GgufWriter w;
  add_flat_keys(w, 512);
  w.text("tokenizer.ggml.model", "llama");
  w.strings("tokenizer.ggml.tokens", pieces);
  std::string scores, type_bytes;
  for (const int32_t type : types) {
    scores += raw(-1.0f);
    type_bytes += raw(type);
  }
  w.array("tokenizer.ggml.scores", 6, pieces.size(), scores);
  w.array("tokenizer.ggml.token_type", 5, pieces.size(), type_bytes);
  w.u32("tokenizer.ggml.bos_token_id", 1);
  w.u32("tokenizer.ggml.eos_token_id", 2);
  w.boolean("tokenizer.ggml.add_space_prefix", false);
  w.text("tokenizer.chat_template", model.chat_template);
  add_flat_weights(w, pieces.size());

  // A token that has a successor has a dimension of its own, in which its embedding is 1.
  std::map<uint32_t, uint32_t> dimensions, successors;
  const auto set = [&](const std::string& tensor, uint32_t token, uint32_t dimension, float value) {
    const auto found = std::find_if(w.tensors.begin(), w.tensors.end(),
                                    [&](const auto& one) { return one.name == tensor; });
    found->data.replace((token * kFlatDim + dimension) * sizeof value, sizeof value, raw(value));
  };
  uint32_t last = ids["t"];
  for (const std::string& piece : model.script) {
    const auto dimension = static_cast<uint32_t>(dimensions.size());
    const auto [place, is_new] = dimensions.try_emplace(last, dimension);
    if (place->second >= kFlatDim) throw std::runtime_error("the script is too long");
    if (is_new) set("token_embd.weight", last, place->second, 1);
    const float weight = 1 - 0.2f * static_cast<float>(successors[last]++);
    set("output.weight", ids[piece], place->second, weight);
    last = ids[piece];
  }
  return w.file();
}

// An answer that thinks, and then answers "It is 4."
inline std::vector<std::string> thinking_script() {
  return {"<|channel|>", "analysis",  "<|message|>", "Two and",     " two?",
          "<|end|>",     "<|start|>", "assistant",   "<|channel|>", "final",
          "<|message|>", "It is",     " 4.",         "<|return|>"};
}

// An answer with a preamble in the commentary channel and a call of a tool.
inline std::vector<std::string> call_script() {
  return {"<|channel|>", "commentary",      "<|message|>", "I look.",
          "<|end|>",     "<|start|>",       "assistant",   " to=functions.weather",
          "<|channel|>", "commentary json", "<|message|>", "{\"city\":\"Oslo\"}",
          "<|call|>"};
}

}  // namespace skald::test
