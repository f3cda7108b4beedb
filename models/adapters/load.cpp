#include "models/adapters/load.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/adapters/lora_file.h"
#include "models/families/family.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"

namespace skald {
namespace {

// Matrices whose rows and columns have the same order in folders and in GGUFs, but for the
// interleaved heads of queries and keys.
constexpr std::string_view kAlike[] = {"attn_q",      "attn_k",   "attn_v", "attn_qkv",
                                       "attn_output", "ffn_gate", "ffn_up", "ffn_down"};

std::vector<float> decode(const Tensor& tensor, double scale) {
  const TensorView& view = tensor.view;
  std::vector<float> numbers(static_cast<size_t>(view.rows * view.cols));
  std::vector<std::byte> scratch;
  for (int64_t r = 0; r < view.rows; ++r) {
    view.decode_row(r, numbers.data() + r * view.cols, scratch);
  }
  for (float& number : numbers) {
    number = static_cast<float>(scale * static_cast<double>(number));
    if (std::isfinite(number)) continue;
    fail(Exit::Model, tensor.file, ": tensor '", printable(tensor.name),
         "' has a number that is not finite, or is not after scaling; the adapter is damaged");
  }
  return numbers;
}

class AdapterLoader {
 public:
  AdapterLoader(const OpenedModel& opened, const LoraFile& file) : opened_(opened), file_(file) {
    if (!file.gguf) return;
    const Family& family = *opened.description;
    const auto& types = family.gguf_types;
    const bool same = std::find(types.begin(), types.end(), file.architecture) != types.end();
    // Mistral's and Mixtral's GGUFs have the architecture "llama".
    if (same || (file.architecture == "llama" && family.interleaves_heads)) return;
    fail(Exit::Model, file.path, ": is an adapter of architecture '",
         printable(file.architecture, 80), "', and the model is of ", family.name);
  }

  AdapterMatrix load(const LoraPair& pair, float scale) const {
    AdapterMatrix matrix;
    matrix.tensor = tensor_of(pair);
    matrix.file = file_.path;
    check_kind(matrix.tensor, pair);
    const Tensor* base = opened_.model.weights->find(matrix.tensor);
    if (!base) {
      fail(Exit::Model, file_.path, ": changes '", printable(pair.module),
           "', and the model has no tensor '", printable(matrix.tensor),
           "'; it is an adapter of another model");
    }
    const TensorView &a = pair.a->view, &b = pair.b->view;
    if (b.rows != base->view.rows || a.cols != base->view.cols) {
      fail(Exit::Model, file_.path, ": changes '", printable(pair.module), "' as a matrix of [",
           b.rows, ", ", a.cols, "], but the model's is [", base->view.rows, ", ", base->view.cols,
           "]; it is an adapter of another model");
    }
    matrix.rank = pair.rank();
    matrix.down = decode(*pair.a, 1);
    matrix.up = decode(*pair.b, pair.scale * static_cast<double>(scale));
    reorder_heads(matrix);
    return matrix;
  }

 private:
  bool base_is_gguf() const { return opened_.gguf != nullptr; }

  std::string tensor_of(const LoraPair& pair) const {
    if (file_.gguf) return pair.module + ".weight";
    std::string name = opened_.description->canonical_name(pair.module + ".weight");
    if (name.empty()) {
      fail(Exit::Model, file_.path, ": changes '", printable(pair.module),
           "', which this model does not have as a matrix of its own; adapters of experts and of "
           "parts that skald does not read are not supported");
    }
    return name;
  }

  void check_kind(const std::string& tensor, const LoraPair& pair) const {
    if (tensor == "token_embd.weight" || tensor == "output.weight") {
      fail(Exit::Model, file_.path, ": changes '", printable(pair.module), "', the model's ",
           tensor == "output.weight" ? "head" : "embedding",
           "; adapters of the embedding and the head are not supported");
    }
    if (file_.gguf == base_is_gguf()) return;
    // The part between "blk.0." and ".weight".
    const size_t begin = tensor.find('.', tensor.find('.') + 1) + 1;
    const std::string part = tensor.substr(begin, tensor.rfind('.') - begin);
    const bool of_net = opened_.model.config.has_delta(std::max(0, layer_of(tensor)));
    const bool alike = std::find(std::begin(kAlike), std::end(kAlike), part) != std::end(kAlike);
    if (alike && !(of_net && !part.starts_with("ffn_"))) return;
    fail(Exit::Model, file_.path, ": changes '", printable(pair.module),
         "', and the adapter is of ",
         file_.gguf ? "a GGUF, but the model is a folder" : "a folder, but the model is a GGUF",
         ", where this matrix may have another order of rows; use both of one kind");
  }

  // Brings the rows of queries and keys into the order of the model's file.
  void reorder_heads(AdapterMatrix& matrix) const {
    const Family* of_file =
        file_.gguf ? &family_for_gguf(file_.architecture, file_.path) : opened_.description;
    const bool has = file_.gguf && of_file->interleaves_heads;
    const bool wants = base_is_gguf() && opened_.description->interleaves_heads;
    const bool queries = matrix.tensor.ends_with(".attn_q.weight");
    if (has == wants || !(queries || matrix.tensor.ends_with(".attn_k.weight"))) return;
    const ModelConfig& c = opened_.model.config;
    const int64_t rows = std::ssize(matrix.up) / matrix.rank;
    const std::vector<int32_t> order = interleaved_rows(rows, queries ? c.heads : c.kv_heads);
    std::vector<float> sorted(matrix.up.size());
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t other = order[static_cast<size_t>(row)];
      const int64_t from = wants ? other : row, to = wants ? row : other;
      std::copy_n(matrix.up.begin() + from * matrix.rank, matrix.rank,
                  sorted.begin() + to * matrix.rank);
    }
    matrix.up = std::move(sorted);
  }

  const OpenedModel& opened_;
  const LoraFile& file_;
};

// Adds a change of the same matrix: the sum of both has the factors of both, side by side.
void join(AdapterMatrix& matrix, const AdapterMatrix& other) {
  const int64_t rows = std::ssize(matrix.up) / matrix.rank;
  std::vector<float> up;
  up.reserve(matrix.up.size() + other.up.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (const AdapterMatrix* each : {&std::as_const(matrix), &other}) {
      const auto begin = each->up.begin() + row * each->rank;
      up.insert(up.end(), begin, begin + each->rank);
    }
  }
  matrix.up = std::move(up);
  matrix.down.insert(matrix.down.end(), other.down.begin(), other.down.end());
  matrix.rank += other.rank;
}

}  // namespace

Adapter load_adapter(const OpenedModel& opened, std::string name, std::span<const LoraUse> uses) {
  std::map<std::string, AdapterMatrix> matrices;
  for (const LoraUse& use : uses) {
    const LoraFile file = open_lora(use.path);
    const AdapterLoader loader(opened, file);
    for (const LoraPair& pair : file.pairs) {
      AdapterMatrix matrix = loader.load(pair, use.scale);
      const auto [known, is_new] = matrices.try_emplace(matrix.tensor, matrix);
      if (!is_new) join(known->second, matrix);
    }
    file.tensors->check_whole();
  }
  Adapter adapter;
  adapter.name = std::move(name);
  for (auto& [tensor, matrix] : matrices) adapter.matrices.push_back(std::move(matrix));
  return adapter;
}

}  // namespace skald
