#include "models/convert/importance_sums.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

#include "engine/base/error.h"
#include "models/convert/gguf_export.h"
#include "models/files/gguf_head.h"

namespace skald {
namespace {

int64_t experts_of(const std::vector<int64_t>& shape) { return shape.size() > 2 ? shape[0] : 1; }

// What tells views of one model apart.
using ViewKey = std::tuple<const std::byte*, const RowReader*, int64_t>;
ViewKey key_of(const TensorView& view) { return {view.data, view.reader, view.first_row}; }

}  // namespace

ImportanceSums::ImportanceSums(const OpenedModel& opened) {
  std::map<ViewKey, const Tensor*> by_view;
  for (const Tensor& tensor : opened.model.weights->tensors()) {
    if (opened.gguf) {
      const int64_t experts = experts_of(tensor.shape);
      places_[tensor.name].push_back({tensor.name, experts, 0, tensor.view.rows / experts});
    } else {
      by_view[key_of(tensor.view)] = &tensor;
    }
  }
  if (opened.gguf) return;
  for (const MadeTensor& made : export_gguf(opened).tensors) {
    const int64_t experts = experts_of(made.shape);
    const bool stacked = !made.stack.empty();
    const std::vector<TensorView> sources =
        stacked ? made.stack : std::vector<TensorView>{made.source};
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto found = by_view.find(key_of(sources[i]));
      if (found == by_view.end()) continue;  // new values, which no product has
      places_[found->second->name].push_back(
          {made.name, experts, stacked ? static_cast<int64_t>(i) : 0,
           stacked ? sources[i].rows : sources[i].rows / experts, made.col_order});
    }
  }
}

void ImportanceSums::see(const Weight& weight, const float* in, int64_t rows) {
  const auto places = places_.find(weight.tensor());
  if (places == places_.end()) return;  // an adapter's matrix
  for (const Place& place : places->second) {
    const int64_t cols = weight.view.cols;
    const int64_t expert = place.first + (place.rows > 0 ? weight.first_row / place.rows : 0);
    check(expert < place.experts && weight.first_col == 0, "a whole row of an expert is seen");
    Sums& sums = sums_[place.name];
    if (sums.squares.empty()) {
      sums.cols = cols;
      sums.squares.resize(static_cast<size_t>(place.experts * cols));
      sums.counts.resize(static_cast<size_t>(place.experts));
      sums.place = &place;
    }
    check(sums.cols == cols, "all products with a matrix have its columns");
    double* squares = sums.squares.data() + expert * cols;
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = in + r * cols;
      for (int64_t c = 0; c < cols; ++c) squares[c] += double{row[c]} * row[c];
    }
    sums.counts[static_cast<size_t>(expert)] += rows;
  }
}

int64_t ImportanceSums::unseen_experts() const {
  int64_t unseen = 0;
  for (const auto& [name, sums] : sums_) {
    unseen += std::count(sums.counts.begin(), sums.counts.end(), 0);
  }
  return unseen;
}

std::string ImportanceSums::file(const ImportanceText& text) const {
  GgufHead head;
  head.put_text("general.type", "imatrix");
  head.put_texts("imatrix.datasets", std::vector<std::string>{text.name});
  head.put_u32("imatrix.chunk_count", text.chunks);
  head.put_u32("imatrix.chunk_size", text.chunk);
  for (const auto& [name, sums] : sums_) {
    const int64_t experts = std::ssize(sums.counts);
    const int64_t of_sums[] = {experts, sums.cols}, of_counts[] = {experts, 1};
    head.add_tensor(name + ".in_sum2", of_sums, DType::F32);
    head.add_tensor(name + ".counts", of_counts, DType::F32);
  }
  std::string out = head.text();
  out.resize(static_cast<size_t>(head.file_bytes()));
  const std::vector<GgufHead::Place> places = head.places();
  size_t at = 0;
  const auto put = [&](const std::vector<float>& values) {
    std::memcpy(out.data() + places[at++].offset, values.data(), values.size() * sizeof(float));
  };
  for (const auto& [name, sums] : sums_) {
    std::vector<float> squares(sums.squares.size());
    const std::vector<int32_t>& order = sums.place->col_order;
    for (size_t i = 0; i < squares.size(); ++i) {
      const size_t cols = static_cast<size_t>(sums.cols), row = i / cols * cols;
      const size_t from = order.empty() ? i : row + static_cast<size_t>(order[i - row]);
      squares[i] = static_cast<float>(sums.squares[from]);
    }
    put(squares);
    put({sums.counts.begin(), sums.counts.end()});
  }
  return out;
}

}  // namespace skald
