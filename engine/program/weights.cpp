#include "engine/program/weights.h"

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

const Tensor* WeightFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void WeightFile::read(const Tensor& tensor, int64_t first, std::span<std::byte> out) const {
  const TensorView& view = tensor.view;
  if (view.data && !out.empty()) std::memcpy(out.data(), view.data + first, out.size());
  if (view.data) return;
  std::vector<std::byte> scratch;
  while (!out.empty()) {
    const int64_t from = first % view.row_bytes;
    const int64_t count = std::min(view.row_bytes - from, std::ssize(out));
    std::copy_n(view.row(first / view.row_bytes, scratch) + from, count, out.begin());
    first += count;
    out = out.subspan(static_cast<size_t>(count));
  }
}

int64_t WeightFile::bytes() const {
  int64_t total = 0;
  for (const Tensor& tensor : tensors_) total += tensor.view.bytes();
  return total;
}

void WeightFile::add(Tensor tensor) {
  const auto [place, is_new] = index_.emplace(tensor.name, tensors_.size());
  if (!is_new) {
    fail(Exit::Model, tensor.file, ": tensor '", printable(tensor.name),
         "' occurs twice (first in ", tensors_[place->second].file,
         "); the file is damaged or was put together wrongly");
  }
  tensors_.push_back(std::move(tensor));
}

}  // namespace skald
