#include "models/convert/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/gguf.h"
#include "models/files/gguf_cursor.h"

namespace skald {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

bool begins_as_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
}

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> out(static_cast<size_t>(view.rows * view.cols));
  std::memcpy(out.data(), view.data, out.size() * sizeof(float));
  return out;
}

bool is_number_from_0(float x) { return x >= 0 && std::isfinite(x); }

}  // namespace

ImportanceFile::ImportanceFile(const std::filesystem::path& path)
    : path_(printable(path.string())), file_(path) {
  const bool gguf = begins_as_gguf(MappedFile(path).bytes());
  if (gguf) {
    read_gguf();
  } else {
    read_old();
  }
  if (entries_.empty()) fail(Exit::Model, path_, ": holds no importances of any tensor");
}

void ImportanceFile::add(std::string_view tensor, std::vector<float> means, int64_t experts) {
  const auto bad = std::find_if_not(means.begin(), means.end(), is_number_from_0);
  if (bad != means.end()) {
    fail(Exit::Model, path_, ": tensor '", printable(tensor), "' has the importance ", *bad,
         ", expected a number of at least 0; the file is damaged");
  }
  auto shared = std::make_shared<const std::vector<float>>(std::move(means));
  if (entries_.emplace(std::string(tensor), Entry{std::move(shared), experts}).second) return;
  fail(Exit::Model, path_, ": has tensor '", printable(tensor), "' twice; the file is damaged");
}

void ImportanceFile::read_gguf() {
  const auto gguf = open_gguf(file_);
  const GgufMetadata& metadata = gguf->metadata();
  const std::string_view type = metadata.text_or("general.type", "");
  if (type != "imatrix") {
    fail(Exit::Model, path_, ": general.type is '", printable(type, 40),
         "', expected 'imatrix'; it is a GGUF of something else than importances");
  }
  chunks_ = static_cast<int64_t>(metadata.uint_or("imatrix.chunk_count", 0) & 0xffffffff);
  if (metadata.find("imatrix.datasets")) {
    for (std::string_view name : metadata.strings("imatrix.datasets")) {
      datasets_.emplace_back(name);
    }
  }
  for (const Tensor& tensor : gguf->tensors()) {
    if (tensor.view.type == DType::F32) continue;
    fail(Exit::Model, path_, ": tensor '", printable(tensor.name), "' is ", name(tensor.view.type),
         ", expected F32");
  }
  for (const Tensor& tensor : gguf->tensors()) {
    const std::string_view full = tensor.name;
    const auto refuse = [&](auto&&... what) {
      fail(Exit::Model, path_, ": tensor '", printable(full), "' ", what...);
    };
    if (full.ends_with(kCounts)) {
      const std::string_view bare = full.substr(0, full.size() - kCounts.size());
      if (!gguf->find(concat(bare, kSums))) refuse("has no sums beside it; the file is damaged");
      continue;
    }
    if (!full.ends_with(kSums)) refuse("is no sum and no count; expected ", kSums, " or ", kCounts);
    const std::string_view bare = full.substr(0, full.size() - kSums.size());
    const Tensor* counts = gguf->find(concat(bare, kCounts));
    if (!counts) refuse("has no counts beside it; the file is damaged");
    const int64_t experts = tensor.view.rows, cols = tensor.view.cols;
    if (counts->view.rows * counts->view.cols != experts) {
      refuse("has sums of ", experts, " experts, and counts of ",
             counts->view.rows * counts->view.cols, "; the file is damaged");
    }
    std::vector<float> means = floats_of(tensor.view);
    const std::vector<float> count = floats_of(counts->view);
    for (int64_t e = 0; e < experts; ++e) {
      const float n = count[static_cast<size_t>(e)];
      if (!is_number_from_0(n)) {
        refuse("has a count of ", n, ", expected a number of at least 0; the file is damaged");
      }
      const auto row = means.begin() + e * cols;
      if (n == 0) {
        std::fill_n(row, cols, 0.0f);
      } else {
        std::for_each(row, row + cols, [n](float& x) { x /= n; });
      }
    }
    add(bare, std::move(means), experts);
  }
}

// A count of entries. For each: its name, the number of chunks, the number of columns, and for each
// column that number of chunks times the mean square. Then perhaps the number of chunks in all, and
// the text's name. All numbers are int32 or float32.
void ImportanceFile::read_old() {
  const MappedFile file(file_);
  GgufCursor cursor(file.bytes(), path_);
  const auto size = [&](const char* what) {
    const auto count = cursor.read<int32_t>(what);
    if (count >= 1) return static_cast<uint64_t>(count);
    fail(Exit::Model, path_, ": ", what, " is ", count,
         ", expected 1 or more; it is no file of importances, or it is damaged");
  };
  const auto text = [&](uint64_t bytes, const char* what) {
    const auto taken = cursor.take(bytes, what);
    return std::string(reinterpret_cast<const char*>(taken.data()), taken.size());
  };
  const uint64_t count = size("the number of entries");
  constexpr uint64_t kSmallestEntry = 4 + 1 + 4 + 4 + 4;
  cursor.check_count(count, kSmallestEntry, "entries");
  for (uint64_t i = 0; i < count; ++i) {
    const std::string tensor = text(size("the length of a tensor's name"), "a tensor's name");
    const auto chunks = cursor.read<int32_t>("a number of chunks");
    if (chunks < 0) {
      fail(Exit::Model, path_, ": tensor '", printable(tensor), "' is of ", chunks,
           " chunks, expected 0 or more; the file is damaged");
    }
    const uint64_t columns = size("the number of a tensor's importances");
    cursor.check_count(columns, sizeof(float), "importances");
    std::vector<float> means(columns);
    const auto bytes = cursor.take(columns * sizeof(float), "a tensor's importances");
    std::memcpy(means.data(), bytes.data(), bytes.size());
    if (chunks > 0) {
      for (float& x : means) x /= static_cast<float>(chunks);
    }
    add(tensor, std::move(means), 0);
  }
  if (cursor.left() == 0) return;
  const auto chunks = cursor.read<int32_t>("the number of chunks");
  chunks_ = std::max(chunks, 0);
  const auto length = cursor.read<int32_t>("the length of the text's name");
  if (length > 0) datasets_.push_back(text(static_cast<uint64_t>(length), "the text's name"));
  if (length < 0 || cursor.left() > 0) {
    fail(Exit::Model, path_, ": the text's name has ", length, " bytes, and ", cursor.left(),
         " bytes follow, expected none; it is damaged");
  }
}

bool ImportanceFile::give(MadeTensor& tensor) const {
  const auto found = entries_.find(tensor.name);
  if (found == entries_.end()) return false;
  const Entry& entry = found->second;
  const int64_t cols = tensor.cols(), size = std::ssize(*entry.means);
  const int64_t experts = tensor.shape.size() > 2 ? tensor.rows() / tensor.shape.end()[-2] : 1;
  const bool fits = entry.experts == 0 || entry.experts == 1 || entry.experts == experts;
  if (!fits || (size != cols && size != cols * experts)) {
    fail(Exit::Model, path_, ": tensor '", printable(tensor.name), "' has ", size,
         " importances, expected ", cols,
         experts > 1 ? concat(" for each of ", experts, " experts") : std::string(),
         ", its number of columns; the file is of another model");
  }
  tensor.importances = entry.means;
  return true;
}

}  // namespace skald
