#include "app/inspect/quantize_plan.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

#include "app/files/json.h"
#include "app/inspect/shape_text.h"
#include "app/terminal/table.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/text/gguf_tokenizer.h"
#include "tokenizer/text/regex.h"

namespace skald {
namespace {

constexpr int kQuantizationVersion = 2;  // GGUF's version number of the block layouts

// The formats that --tensor-type chooses. The first pattern that matches a tensor's name decides.
// A pattern that matches no tensor is an error, since it is probably misspelled.
class Overrides {
 public:
  explicit Overrides(const std::vector<std::pair<std::string, DType>>& overrides) {
    for (const auto& [pattern, type] : overrides) {
      try {
        overrides_.push_back({pattern, Regex(pattern, "--tensor-type"), type, false});
      } catch (const Error& error) {
        fail(Exit::Usage, error.what());
      }
    }
  }

  std::optional<DType> find(std::string_view name) {
    std::optional<DType> type;
    for (Override& one : overrides_) {
      std::vector<Span> matches;
      Regex::Search(one.regex).find_all(name, matches);
      if (matches.empty()) continue;
      one.used = true;
      if (!type) type = one.type;
    }
    return type;
  }

  void check_used() const {
    for (const Override& one : overrides_) {
      if (one.used) continue;
      fail(Exit::Usage, "--tensor-type '", printable(one.pattern, 60),
           "': matches no tensor that can be quantized; skald inspect --tensors lists the names");
    }
  }

 private:
  struct Override {
    std::string pattern;
    Regex regex;
    DType type;
    bool used;
  };
  std::vector<Override> overrides_;
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

double bits_per_weight(const QuantizePlan& plan) {
  return 8 * static_cast<double>(plan.tensor_bytes()) / static_cast<double>(plan.parameters);
}

void put_importances(const ImportanceFile& file, GgufHead& head) {
  head.put_text("quantize.imatrix.file", file.path());
  if (!file.datasets().empty()) head.put_text("quantize.imatrix.dataset", file.datasets().front());
  head.put_u32("quantize.imatrix.entries_count", file.entries());
  head.put_u32("quantize.imatrix.chunks_count", file.chunks());
}

// Counts the tensors that are quantized, and those of them without importances.
class WithoutImportances {
 public:
  explicit WithoutImportances(const ImportanceFile* file) : file_(file) {}

  void give(MadeTensor& tensor) {
    if (!file_ || info(tensor.type).block_elems == 1 || tensor.copied()) return;
    ++quantized_;
    if (file_->give(tensor)) return;
    if (without_++ == 0) first_ = tensor.name;
  }

  void note(std::vector<std::string>& notes) const {
    if (without_ == 0) return;
    if (without_ == quantized_) {
      fail(Exit::Model, file_->path(), ": has importances of ", file_->entries(),
           " tensors, but none of those that are quantized; it is of another model, or of names "
           "that are not GGUF's");
    }
    notes.push_back(concat(file_->path(), ": has no importances of ", without_, " of the ",
                           quantized_, " tensors that are quantized, such as ", first_));
  }

 private:
  const ImportanceFile* file_;
  int64_t quantized_ = 0, without_ = 0;
  std::string first_;
};

std::string_view from(const MadeTensor& tensor) {
  return tensor.values.empty() ? name(tensor.source.type) : "new";
}

}  // namespace

int64_t QuantizePlan::tensor_bytes() const {
  int64_t bytes = 0;
  for (const MadeTensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

std::pair<std::string, DType> parse_override(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    fail(Exit::Usage, "--tensor-type '", printable(text, 60),
         "': expected PATTERN=TYPE, as in attn_v=q6_k");
  }
  const std::optional<DType> type = dtype_from_name(text.substr(equals + 1));
  if (!type || !info(*type).encode_row) {
    std::string known;
    for (const DTypeInfo& format : all_dtypes()) {
      if (format.encode_row) known += concat(known.empty() ? "" : ", ", lower(format.name));
    }
    fail(Exit::Usage, "--tensor-type '", printable(text, 60), "': expected a type among ", known);
  }
  return {text.substr(0, equals), *type};
}

QuantizePlan plan_quantize(const OpenedModel& opened, const QuantizeSettings& settings) {
  QuantizePlan plan;
  GgufExport exported = export_gguf(opened);
  plan.name = settings.mix->name;
  plan.head = std::move(exported.head);
  plan.tensors = std::move(exported.tensors);
  plan.source_bytes = opened.model.weights->bytes();
  if (!opened.gguf) plan.notes = put_tokenizer(opened, plan.head);
  plan.head.put_u32("general.file_type", settings.mix->file_type);
  plan.head.put_u32("general.quantization_version", kQuantizationVersion);

  if (settings.importances) put_importances(*settings.importances, plan.head);

  Overrides overrides(settings.overrides);
  WithoutImportances without(settings.importances);
  const auto find_override = [&](std::string_view name) { return overrides.find(name); };
  MixedModel model = mixed_model(opened.model.config);
  model.importances = settings.importances != nullptr;
  for (MadeTensor& tensor : plan.tensors) {
    plan.parameters += tensor.elements();
    bool other = false;
    if (is_quantizable(tensor.name, tensor.rows(), tensor.shape.size())) {
      const TypeChoice choice =
          choose_type(*settings.mix, model, tensor.name, tensor.cols(), find_override);
      const DType had = tensor.source.type;
      const bool kept = is_original(had) && !settings.requantize && !find_override(tensor.name);
      tensor.type = kept ? had : choice.type;
      other = !kept && choice.other_rows;
      if (!settings.requantize && !has_float_weights(tensor.source.type) &&
          tensor.type != tensor.source.type) {
        fail(Exit::Usage, tensor.file, ": tensor '", printable(tensor.name), "' is ",
             name(tensor.source.type),
             ", and quantizing it again loses more; convert the original model, or allow this with "
             "--requantize");
      }
    }
    // A tensor that no mix quantizes keeps its type, unless GGUF lacks it.
    if (info(tensor.type).gguf_id == kNoGgufId) tensor.type = DType::F32;
    without.give(tensor);
    plan.other_rows.push_back(other);
    plan.head.add_tensor(tensor.name, tensor.shape, tensor.type);
  }
  overrides.check_used();
  without.note(plan.notes);
  if (!opened.gguf) check_export(opened, plan.head, plan.tensors);
  return plan;
}

std::string to_text(const QuantizePlan& plan, bool tensors) {
  std::string out;
  if (tensors) {
    Table table{{"tensor", "shape", "from", "to", "size"}, {}};
    for (const MadeTensor& tensor : plan.tensors) {
      table.rows.push_back({printable(tensor.name), shape_text(tensor.shape),
                            std::string(from(tensor)), std::string(name(tensor.type)),
                            size_text(tensor.bytes())});
    }
    out = to_text(table) + "\n";
  }
  struct Sum {
    int64_t count = 0, elements = 0, bytes = 0;
  };
  std::map<DType, Sum> types;
  for (const MadeTensor& tensor : plan.tensors) {
    Sum& sum = types[tensor.type];
    ++sum.count;
    sum.elements += tensor.elements();
    sum.bytes += tensor.bytes();
  }
  Table table{{"format", "tensors", "weights", "size"}, {}};
  for (const auto& [type, sum] : types) {
    table.rows.push_back({std::string(name(type)), std::to_string(sum.count),
                          count_text(sum.elements), size_text(sum.bytes)});
  }
  out += to_text(table);
  const auto others = std::count(plan.other_rows.begin(), plan.other_rows.end(), true);
  if (others > 0) {
    out += concat(others, others == 1 ? " tensor gets" : " tensors get",
                  " a format with smaller blocks, because the row length is no multiple of the "
                  "type's block\n");
  }
  char text[160];
  std::snprintf(text, sizeof text, "%s from %s, %.2f bits a weight\n",
                size_text(plan.head.file_bytes()).c_str(), size_text(plan.source_bytes).c_str(),
                bits_per_weight(plan));
  return out + text;
}

std::string to_json(const QuantizePlan& plan, bool written) {
  Json report = {{"type", plan.name},
                 {"written", written},
                 {"bytes", plan.head.file_bytes()},
                 {"source_bytes", plan.source_bytes},
                 {"parameters", plan.parameters},
                 {"bits_per_weight", bits_per_weight(plan)},
                 {"tensors", Json::array()}};
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const MadeTensor& tensor = plan.tensors[i];
    report["tensors"].push_back({{"name", tensor.name},
                                 {"shape", tensor.shape},
                                 {"from", std::string(from(tensor))},
                                 {"to", std::string(name(tensor.type))},
                                 {"bytes", tensor.bytes()},
                                 {"importances", tensor.importances != nullptr},
                                 {"other_for_rows", static_cast<bool>(plan.other_rows[i])}});
  }
  return dump(report, 2) + "\n";
}

}  // namespace skald
