// A Family describes one kind of architecture: how its configuration is read from config.json and
// GGUF, how its tensors are named, and how its Program is built. Each family has one file in this
// folder and one line in list.inc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/program/model.h"

namespace skald {

class HfConfig;
class GgufFile;
struct RawTensor;
struct GgufExport;

struct Family {
  std::string_view name;
  std::span<const std::string_view> hf_types;    // config.json's model_type
  std::span<const std::string_view> gguf_types;  // general.architecture

  ModelConfig (*from_hf)(const HfConfig&);
  ModelConfig (*from_gguf)(const GgufFile&);
  // Translates a Hugging Face tensor name to GGUF's; empty: the tensor is not needed.
  std::string (*canonical_name)(std::string_view hf_name);
  Program (*build)(const ModelConfig&, const WeightFile&);
  // Completes the metadata and tensors of a GGUF made of a Hugging Face folder (gguf_fields.h).
  // nullptr: skald cannot write such a GGUF.
  void (*to_gguf)(const HfConfig&, const ModelConfig&, GgufExport&) = nullptr;
  // For Hugging Face folders whose tensors have another layout than skald's: the same tensors as
  // skald names and lays them out. `raw`: tensors of types that no matrix has, which live as long
  // as the weights. nullptr: they have skald's layout.
  std::shared_ptr<const WeightFile> (*laid_out)(std::shared_ptr<const WeightFile> weights,
                                                std::span<const RawTensor> raw) = nullptr;
  // GGUFs have interleaved rows of queries and keys where folders have not (interleave_heads()).
  bool interleaves_heads = false;
  // The quant_method whose weights laid_out() reads. The others are models/checkpoints'.
  std::string_view own_quant_method = {};
  // The files may have a layer that predicts a further token (models/heads), which reads this.
  std::optional<Features> predictor_reads = {};
  // laid_out() is for GGUFs too: some have an older layout. It returns the others as they are.
  bool lays_out_ggufs = false;
};

// The files are whole, but no family reads their architecture.
class UnknownFamily : public Error {
 public:
  explicit UnknownFamily(const std::string& message) : Error(Exit::Model, message) {}
};

// The type of a folder's model: model_type, or "mistral3/mistral4" where a wrapper's text part has
// another architecture than its other ones.
std::string hf_type(const HfConfig& config);
// These throw UnknownFamily.
const Family& family_for_hf(std::string_view model_type, std::string_view where);
const Family& family_for_gguf(std::string_view architecture, std::string_view where);

}  // namespace skald
