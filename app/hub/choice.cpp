#include "app/hub/choice.h"

#include <algorithm>
#include <cctype>
#include <compare>
#include <cstdlib>
#include <map>
#include <optional>

#include "app/hub/text.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/quant/dtype.h"

namespace skald {
namespace {

constexpr std::string_view kDynamic = "UD-";  // unsloth's mixes: UD-Q4_K_XL
constexpr std::string_view kHalf = "FP16";    // some files' name for F16

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_separator(char c) { return c == '-' || c == '.' || c == '/' || c == ' '; }

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// True for the types that a GGUF can have: not for skald's own FP8 and NVFP4.
bool is_gguf_type(std::string_view word) {
  const std::optional<DType> type = dtype_from_name(word);
  return type && info(*type).gguf_id != kNoGgufId;
}

// True for the name of a type, also with an ending: "Q4_0", "MXFP4_MOE".
bool starts_type_of_table(std::string_view word) {
  return word == kHalf || is_gguf_type(word) || is_gguf_type(word.substr(0, word.find('_')));
}

bool starts_type(std::string_view word) {
  for (std::string_view start : {"IQ", "TQ", "Q"}) {
    if (word.starts_with(start) && word.size() > start.size() && is_digit(word[start.size()])) {
      return true;
    }
  }
  return starts_type_of_table(word);
}

// The type in a path: its last word that looks like one. Words are separated by '-', '.' and '/'.
std::string type_of(std::string_view path) {
  const std::string name = upper(path);
  std::string found;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && !is_separator(name[end])) ++end;
    const std::string_view word = std::string_view(name).substr(at, end - at);
    // "model_Q4_K_M": some names separate by '_', which types contain too.
    size_t start = 0;
    while (start < word.size() && !starts_type(word.substr(start))) {
      const size_t next = word.find('_', start);
      start = next == word.npos ? word.size() : next + 1;
    }
    if (start < word.size()) {
      const bool dynamic = at >= kDynamic.size() && start == 0 &&
                           name.compare(at - kDynamic.size(), kDynamic.size(), kDynamic) == 0;
      found = concat(dynamic ? kDynamic : "", word.substr(start));
    }
    at = end + 1;
  }
  return found;
}

struct Split {
  std::string stem;  // the path without "-00001-of-00003.gguf"
  size_t parts = 1;
};

Split split_of(const std::string& file) {
  Split split{file.substr(0, file.size() - std::string_view(".gguf").size()), 1};
  constexpr std::string_view kPattern = "-00001-of-00003";
  if (split.stem.size() <= kPattern.size()) return split;
  const std::string tail = split.stem.substr(split.stem.size() - kPattern.size());
  for (size_t i = 0; i < tail.size(); ++i) {
    if (is_digit(kPattern[i]) ? !is_digit(tail[i]) : tail[i] != kPattern[i]) return split;
  }
  split.parts = std::stoul(tail.substr(tail.size() - 5));
  split.stem.erase(split.stem.size() - kPattern.size());
  return split;
}

std::string types_text(std::span<const GgufModel> models) {
  std::string text;
  for (const GgufModel& model : models) {
    const std::string name = model.type.empty() ? model.files.front() : model.type;
    if (!is_readable_type(model.type)) continue;
    text += concat(text.empty() ? "" : ", ", printable(name));
  }
  return text.empty() ? "none that skald reads" : text;
}

// Several files may have the type. The choice is the file in the fewest folders, then the shortest
// name.
const GgufModel* find_type(std::span<const GgufModel> models, std::string_view type) {
  const GgufModel* best = nullptr;
  const auto depth = [](const GgufModel& model) {
    const std::string& file = model.files.front();
    return std::pair(std::count(file.begin(), file.end(), '/'), file.size());
  };
  for (const GgufModel& model : models) {
    if (model.type == type && (!best || depth(model) < depth(*best))) best = &model;
  }
  return best;
}

// How well a type suits a machine that nothing is known about; smaller is better.
struct Suitability {
  bool dynamic;  // a mix of unsloth's
  size_t bits, kind;
  std::string type;

  auto operator<=>(const Suitability&) const = default;
};

Suitability suitability(const std::string& type) {
  // Most machines have room for four bits. Fewer bits cost quality, so more bits come before them.
  constexpr int kBits[] = {4, 5, 6, 8, 3, 2, 16, 32};
  // Among those of the same bits: the usual mix, what is published in four bits, other mixes, plain
  // formats, formats that are slower.
  constexpr std::string_view kKinds[] = {"_K_M", "FP4", "_K", "_"};
  const size_t digits = type.find_first_of("0123456789");
  const int bits = std::atoi(type.c_str() + std::min(digits, type.size()));
  const bool slow = type.find("IQ") != type.npos;
  size_t kind = 0;
  while (kind < std::size(kKinds) && type.find(kKinds[kind]) == type.npos) ++kind;
  return {type.starts_with(kDynamic),
          static_cast<size_t>(std::find(std::begin(kBits), std::end(kBits), bits) - kBits),
          slow ? std::size(kKinds) : kind, type};
}

bool ends_with(std::string_view name, std::string_view end) { return name.ends_with(end); }

}  // namespace

std::vector<GgufModel> gguf_models(std::span<const std::string> files) {
  std::map<std::string, GgufModel> found;
  for (const std::string& file : files) {
    const std::string name = upper(base_name(file));
    if (!ends_with(name, ".GGUF") || !ends_with(file, ".gguf")) continue;
    if (name.find("MMPROJ") != name.npos || name.find("IMATRIX") != name.npos) continue;
    const Split split = split_of(file);
    GgufModel& model = found[split.stem + "/" + std::to_string(split.parts)];
    model.type = type_of(split.stem);
    model.parts = std::max<size_t>(split.parts, 1);
    model.files.push_back(file);
  }
  std::vector<GgufModel> models;
  for (auto& [stem, model] : found) {
    std::sort(model.files.begin(), model.files.end());
    models.push_back(std::move(model));
  }
  return models;
}

bool is_readable_type(std::string_view type) {
  if (type.starts_with(kDynamic)) type.remove_prefix(kDynamic.size());
  if (type.empty() || starts_type_of_table(type)) return true;
  if (type == "Q8_K_XL") return true;  // of Q8_0 and 16 bits
  for (std::string_view mix : {"_XS", "_S", "_M", "_L", "_XL"}) {
    if (!type.ends_with(mix)) continue;
    const std::string_view base = type.substr(0, type.size() - mix.size());
    // IQ3_M consists of IQ3_S and types of four bits, IQ3_XS of IQ3_XXS and IQ3_S, IQ2_M of IQ2_S
    // and wider types.
    if (is_gguf_type(base) || is_gguf_type(concat(base, "_S"))) return true;
  }
  return false;
}

const GgufModel& choose_gguf(std::span<const GgufModel> models, std::string_view type,
                             std::string_view where) {
  if (models.empty()) fail(Exit::Model, printable(where), ": has no GGUF files");
  if (!type.empty()) {
    const std::string wanted = upper(type);
    if (const GgufModel* found = find_type(models, wanted)) {
      if (!is_readable_type(wanted)) {
        fail(Exit::Model, printable(where), ": skald does not read the type ", printable(wanted),
             "; the types that it reads here: ", types_text(models));
      }
      return *found;
    }
    if (const GgufModel* found = find_type(models, concat(kDynamic, wanted))) return *found;
    fail(Exit::Model, printable(where), ": has no GGUF of type ", printable(wanted),
         "; the types here: ", types_text(models));
  }
  if (models.size() == 1) return models.front();
  std::optional<Suitability> best;
  for (const GgufModel& model : models) {
    if (model.type.empty() || !is_readable_type(model.type)) continue;
    const Suitability one = suitability(model.type);
    if (!best || one < *best) best = one;
  }
  if (best) return *find_type(models, best->type);
  fail(Exit::Model, printable(where), ": has ", models.size(),
       " GGUF models, and none has a type that skald would choose; name one as in ",
       printable(where), "/", printable(models.front().files.front()));
}

std::vector<std::string> folder_files(std::span<const std::string> files) {
  constexpr std::string_view kSmall[] = {"config.json",
                                         "generation_config.json",
                                         "hf_quant_config.json",
                                         "quantize_config.json",
                                         "quant_config.json",
                                         "tokenizer.json",
                                         "tokenizer.model",
                                         "vocab.json",
                                         "merges.txt",
                                         "added_tokens.json",
                                         "tokenizer_config.json",
                                         "chat_template.json",
                                         "chat_template.jinja",
                                         "special_tokens_map.json"};
  std::vector<std::string> needed, weights;
  for (const std::string& file : files) {
    if (file.starts_with("additional_chat_templates/") && ends_with(file, ".jinja")) {
      needed.push_back(file);
    }
    if (file.find('/') != file.npos) continue;  // original/, onnx/: the same weights once more
    if (std::find(std::begin(kSmall), std::end(kSmall), file) != std::end(kSmall)) {
      needed.push_back(file);
    }
    // model.safetensors or model-00001-of-00002.safetensors; consolidated.safetensors is a copy.
    const bool shard = file.starts_with("model") && ends_with(file, ".safetensors");
    if (shard || file == "model.safetensors.index.json") weights.push_back(file);
  }
  for (const std::string& file : weights) {
    if (file != "model.safetensors") continue;
    weights = {file};
    break;
  }
  if (weights.empty()) return {};
  needed.insert(needed.end(), weights.begin(), weights.end());
  std::sort(needed.begin(), needed.end());
  return needed;
}

}  // namespace skald
