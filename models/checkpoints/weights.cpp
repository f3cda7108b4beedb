#include "models/checkpoints/weights.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/checkpoints/matrices.h"
#include "models/files/made_weights.h"

namespace skald {
namespace {

constexpr std::string_view kWeight = "weight";
// What a matrix's parts are called after its module's name. A longer one stands before those that
// it ends with.
constexpr std::string_view kKinds[] = {"weight.absmax",
                                       "weight.quant_map",
                                       "weight.nested_absmax",
                                       "weight.nested_quant_map",
                                       "weight.quant_state.bitsandbytes__nf4",
                                       "weight.quant_state.bitsandbytes__fp4",
                                       "qweight",
                                       "qzeros",
                                       "scales",
                                       "g_idx",
                                       "weight_packed",
                                       "weight_scale",
                                       "weight_scale_2",
                                       "weight_scale_inv",
                                       "weight_global_scale",
                                       "weight_zero_point",
                                       "weight_shape",
                                       "weight_g_idx",
                                       "pre_quant_scale",
                                       "SCB",
                                       "weight_format",
                                       kWeight};

// AWQ's scales of an activation function, by which the next matrix is multiplied.
constexpr std::string_view kActivationScales = ".act.scales";

// A tensor's name before and after the dot that begins its kind; no kind: it is no part.
struct PartName {
  std::string_view module, kind;
};

PartName split(std::string_view name) {
  for (const std::string_view kind : kKinds) {
    if (!name.ends_with(kind)) continue;
    const size_t rest = name.size() - kind.size();
    if (rest > 0 && name[rest - 1] == '.') return {name.substr(0, rest - 1), kind};
  }
  return {name, {}};
}

Part part_of(const RawTensor& raw) { return {raw.name, raw.type, raw.shape, raw.bytes, raw.file}; }

Part part_of(const Tensor& tensor) {
  const TensorView& view = tensor.view;
  return {tensor.name,
          std::string(info(view.type).safetensors),
          tensor.shape,
          {view.data, static_cast<size_t>(view.bytes())},
          tensor.file};
}

QuantizedMatrix packed_matrix(const Parts& parts, const QuantMethod& method) {
  if (parts.find("weight_global_scale")) return nvfp4_packed_matrix(parts);
  const Part* packed = parts.find("weight_packed");
  return packed->type == "U8" ? mxfp4_matrix(parts) : packed_int_matrix(parts, method);
}

QuantizedMatrix matrix_of(const Parts& parts, const QuantMethod& method) {
  const Part* weight = parts.find(kWeight);
  switch (method.tool) {
    case QuantTool::Gptq:
      return gptq_matrix(parts, method);
    case QuantTool::Awq:
      return awq_matrix(parts, method);
    case QuantTool::Fp8:
      return fp8_matrix(parts, method);
    case QuantTool::ModelOpt:
      return parts.find("weight_scale_2") ? nvfp4_matrix(parts) : fp8_matrix(parts, method);
    case QuantTool::BitsAndBytes:
      return parts.find("SCB") ? row_int8_matrix(parts) : table4_matrix(parts);
    case QuantTool::CompressedTensors:
      break;
  }
  if (parts.find("weight_packed")) return packed_matrix(parts, method);
  return weight && weight->type == "I8" ? int8_matrix(parts, method) : fp8_matrix(parts, method);
}

using PartsByModule = std::map<std::string, Parts, std::less<>>;

// The name without the number of an expert: "blk.0.ffn_up" of "blk.0.ffn_up.7".
std::string stack_of(std::string_view module) {
  const size_t dot = module.rfind('.');
  const std::string_view last = module.substr(dot + 1);
  const bool number = last.find_first_not_of("0123456789") == last.npos;
  return std::string(number ? module.substr(0, dot) : module);
}

class CheckpointWeights final : public DescribedWeights {
 public:
  CheckpointWeights(std::shared_ptr<const SafetensorsFile> file, const QuantMethod& method)
      : DescribedWeights(file->path(), file) {
    PartsByModule matrices;
    std::map<std::string, DType> plain_stacks;
    const auto add_part = [&](Part part) {
      const auto [module, kind] = split(part.name);
      const auto at = matrices.try_emplace(std::string(module), std::string(module)).first;
      at->second.add(std::string(kind), std::move(part));
    };
    for (const RawTensor& raw : file->raw_tensors()) {
      if (split(raw.name).kind.empty()) refuse_raw(raw);
      add_part(part_of(raw));
    }
    for (const Tensor& tensor : file->tensors()) {
      const std::string_view kind = split(tensor.name).kind;
      if (!kind.empty() && kind != kWeight) add_part(part_of(tensor));
    }
    for (const Tensor& tensor : file->tensors()) {
      const auto [module, kind] = split(tensor.name);
      if (!kind.empty() && kind != kWeight) continue;
      const auto found = kind.empty() ? matrices.end() : matrices.find(module);
      if (found == matrices.end()) {
        if (kind == kWeight) plain_stacks.try_emplace(stack_of(module), tensor.view.type);
        add(tensor);
      } else {
        // Its layout refuses the plain matrix, or knows what it means.
        found->second.add(std::string(kWeight), part_of(tensor));
      }
    }
    add_matrices(matrices, method, std::move(plain_stacks));
  }

 private:
  struct Made {
    const Parts* parts;
    QuantizedMatrix matrix;
    DType type;
  };

  // The experts of a layer have one format. `stacks` has that of plain experts.
  void add_matrices(const PartsByModule& matrices, const QuantMethod& method,
                    std::map<std::string, DType> stacks) {
    std::vector<Made> all;
    for (const auto& [module, parts] : matrices) {
      parts.refuse_stack();
      Made made{&parts, matrix_of(parts, method), DType::F32};
      made.type = exact_type(made.matrix, method.plain);
      if (is_convertible(made.matrix)) {
        const auto at = stacks.try_emplace(stack_of(module), made.type).first;
        at->second = common_type(at->second, made.type, method.plain);
      }
      all.push_back(std::move(made));
    }
    for (Made& made : all) {
      const bool converts = is_convertible(made.matrix);
      const DType type = converts ? stacks.at(stack_of(made.parts->module())) : made.type;
      add_matrix(std::move(made), type);
    }
  }

  // False for blocks that the file itself has.
  static bool is_convertible(const QuantizedMatrix& matrix) {
    return !matrix.blocks || matrix.floats;
  }

  void add_matrix(Made made, DType type) {
    Tensor tensor{
        made.parts->matrix(), {made.matrix.rows, made.matrix.cols}, {}, made.parts->any().file};
    tensor.view.type = type;
    tensor.view.rows = made.matrix.rows;
    tensor.view.cols = made.matrix.cols;
    tensor.view.row_bytes = tensor.view.own_row_bytes();
    readers_.push_back(reader_of(std::move(made.matrix), type));
    tensor.view.reader = readers_.back().get();
    add(std::move(tensor));
  }

  std::vector<std::unique_ptr<RowReader>> readers_;
};

}  // namespace

TensorRename part_names(TensorRename whole) {
  return [whole = std::move(whole)](std::string_view name) -> std::string {
    const auto [module, kind] = split(name);
    if (kind.empty() || kind == kWeight) return whole(name);
    if (name.ends_with(kActivationScales)) {
      fail(
          Exit::Model, "tensor '", printable(name),
          "' scales an activation, which skald does not compute; use the original model or a GGUF");
    }
    std::string matrix = whole(concat(module, ".", kWeight));
    if (!matrix.ends_with(concat(".", kWeight))) return "";
    matrix.resize(matrix.size() - kWeight.size());
    return matrix + std::string(kind);
  };
}

std::shared_ptr<const WeightFile> quantized_weights(std::shared_ptr<const SafetensorsFile> file,
                                                    const QuantMethod& method) {
  return std::make_shared<const CheckpointWeights>(std::move(file), method);
}

}  // namespace skald
