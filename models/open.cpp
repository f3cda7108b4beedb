#include "models/open.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/checkpoints/weights.h"
#include "models/families/family.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"
#include "models/files/safetensors.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

OpenedModel open_gguf_model(const fs::path& file) {
  const auto gguf = open_gguf(file);
  if (gguf->metadata().text_or("general.type", "model") == "adapter") {
    fail(Exit::Model, gguf->path(),
         ": is an adapter, not a model; give its model with -m and the "
         "adapter with --lora");
  }
  const Family& family =
      family_for_gguf(gguf->metadata().text("general.architecture"), gguf->path());
  const std::shared_ptr<const WeightFile> weights =
      family.lays_out_ggufs ? family.laid_out(gguf, {}) : gguf;
  OpenedModel opened{
      {family.from_gguf(*gguf), weights, family.build}, file, gguf, family.name, &family};
  opened.model.program();  // finds missing tensors and wrong shapes now
  return opened;
}

std::shared_ptr<const WeightFile> open_hf_weights(const Family& family, const fs::path& folder,
                                                  const std::optional<QuantMethod>& method,
                                                  const TensorRename& name) {
  if (method) {
    const auto file = open_safetensors(folder, part_names(name), RawTensors::Kept);
    auto weights = quantized_weights(file, *method);
    return family.laid_out ? family.laid_out(std::move(weights), {}) : weights;
  }
  const RawTensors raw = family.laid_out ? RawTensors::Kept : RawTensors::Refused;
  const auto file = open_safetensors(folder, name, raw);
  if (!family.laid_out) return file;
  return family.laid_out(file, file->raw_tensors());
}

// Models that are saved without their head lack the prefix of the others' names.
bool lacks_prefix(std::string_view hf_name) {
  return hf_name.starts_with("layers.") || hf_name == "embed_tokens.weight" ||
         hf_name == "norm.weight";
}

std::string with_prefix(std::string_view hf_name) {
  return lacks_prefix(hf_name) ? concat("model.", hf_name) : std::string(hf_name);
}

OpenedModel open_hf_folder(const fs::path& folder) {
  const HfConfig config = HfConfig::read(folder / "config.json");
  const Family& family = family_for_hf(hf_type(config), config.where());
  ModelConfig model_config = family.from_hf(config);
  // Layers beyond the configuration's number predict further tokens (models/heads).
  bool bare = false;
  const auto name = [&](std::string_view hf_name) {
    bare = bare || lacks_prefix(hf_name);
    std::string own = family.canonical_name(with_prefix(hf_name));
    return layer_of(own) < model_config.layers ? own : std::string();
  };
  const auto method = read_quant_method(config, folder, family.own_quant_method);
  const auto weights = open_hf_weights(family, folder, method, name);
  const bool headless = bare && !model_config.tied && !weights->find("output.weight");
  if (headless) model_config.tied = true;  // something must stand in the head's place
  OpenedModel opened{
      {std::move(model_config), weights, family.build}, folder, nullptr, family.name, &family};
  opened.headless = headless;
  if (method) opened.quantized_by = method->name;
  opened.has_vision = config.has("vision_config");
  opened.has_audio = config.has("audio_config");
  opened.model.program();
  return opened;
}

OpenedModel open_folder(const fs::path& folder) {
  if (fs::exists(folder / "config.json")) return open_hf_folder(folder);
  std::vector<fs::path> ggufs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") ggufs.push_back(entry.path());
  }
  std::sort(ggufs.begin(), ggufs.end());
  const bool one_model =
      ggufs.size() == 1 ||
      (!ggufs.empty() && ggufs.front().filename().string().find("-00001-of-") != std::string::npos);
  if (one_model) return open_gguf_model(ggufs.front());
  if (!ggufs.empty()) {
    fail(Exit::Model, printable(folder.string()), ": holds ", ggufs.size(),
         " GGUF files; name one of them, for instance ",
         printable(ggufs.front().filename().string()));
  }
  fail(Exit::Model, printable(folder.string()),
       ": is not a model folder; expected config.json with *.safetensors, or a *.gguf");
}

}  // namespace

std::shared_ptr<const WeightFile> tensors_of_layer(const OpenedModel& model, int layer) {
  if (model.gguf) return model.gguf;
  const HfConfig config = HfConfig::read(model.path / "config.json");
  const Family& family = *model.description;
  const auto name = [&](std::string_view hf_name) {
    std::string own = family.canonical_name(with_prefix(predictor_name(hf_name, layer)));
    const int of = layer_of(own);
    return of == layer || of < 0 ? own : std::string();
  };
  const auto method = read_quant_method(config, model.path, family.own_quant_method);
  return open_hf_weights(family, model.path, method, name);
}

std::string similar_entry(const fs::path& path) {
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    // The path itself exists if it is a dangling link
    if (name != path.filename().string() && seems_a_model(entry.path())) names.push_back(name);
  }
  std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view best = nearest(path.filename().string(), views);
  return std::string(best);
}

bool is_gguf(const fs::path& file) {
  char magic[4] = {};
  std::ifstream in(file, std::ios::binary);
  return in.read(magic, sizeof magic) && std::string_view(magic, 4) == "GGUF";
}

bool seems_a_model(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return path.extension() == ".safetensors" ||
           (fs::is_regular_file(path, error) && (path.extension() == ".gguf" || is_gguf(path)));
  }
  if (fs::exists(path / "config.json", error)) return true;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".gguf") return true;
  }
  return false;
}

OpenedModel open_model(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const std::string name = printable(path.string());
  if (!fs::exists(status)) {
    const std::string meant = similar_entry(path);
    fail(Exit::Model, name, ": there is no such file or folder",
         meant.empty() ? "" : concat("; did you mean '", printable(meant), "'?"));
  }
  if (fs::is_directory(status)) return open_folder(path);
  if (!fs::is_regular_file(status)) fail(Exit::Model, name, ": is neither a file nor a folder");
  if (is_gguf(path)) return open_gguf_model(path);

  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool hugging_face = path.filename() == "config.json" ||
                            path.extension() == ".safetensors" ||
                            path.filename() == "model.safetensors.index.json";
  if (hugging_face && fs::exists(folder / "config.json")) return open_hf_folder(folder);
  if (path.extension() == ".safetensors") {
    fail(Exit::Model, name, ": there is no config.json beside it; open the model's folder");
  }
  if (path.extension() == ".gguf") return open_gguf_model(path);  // its Error says what is wrong
  fail(Exit::Model, name, ": is not a model; expected a GGUF file or a Hugging Face folder");
}

}  // namespace skald
