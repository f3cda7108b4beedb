// A Family is what skald knows of one kind of architecture: how its configuration is read from both
// file kinds, how its tensors are called, and its Program. One file in models/ each, one line in
// registry.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/program/model.h"

namespace skald {

class HfConfig;
class GgufFile;
struct GgufExport;

struct Family {
  std::string_view name;
  std::span<const std::string_view> hf_types;    // config.json's model_type
  std::span<const std::string_view> gguf_types;  // general.architecture

  ModelConfig (*from_hf)(const HfConfig&);
  ModelConfig (*from_gguf)(const GgufFile&);
  // Hugging Face's tensor name in GGUF's spelling; empty: not needed.
  std::string (*canonical_name)(std::string_view hf_name);
  Program (*build)(const ModelConfig&, const WeightFile&);
  // Completes what a GGUF of a Hugging Face folder holds, see gguf_fields.h; nullptr: skald writes
  // none.
  void (*to_gguf)(const HfConfig&, const ModelConfig&, GgufExport&) = nullptr;
};

const Family& family_for_hf(std::string_view model_type, std::string_view where);
const Family& family_for_gguf(std::string_view architecture, std::string_view where);

}  // namespace skald
