#include "models/files/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/quant/dtype.h"
#include "models/files/gguf_cursor.h"

namespace skald {
namespace {

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 2 << 20;  // a huge page; a larger value would be an attack
constexpr uint64_t kMaxTensors = 1 << 20;    // large mixtures of experts have some thousand tensors
constexpr size_t kMaxNameBytes = 64;         // the format's limit
constexpr uint32_t kMostDims = 4;

// Names of other types, for messages. A type that skald reads may stay here: dtype.cpp is asked
// first.
struct ForeignType {
  uint32_t id;
  std::string_view name;
};
constexpr ForeignType kForeignTypes[] = {{9, "Q8_1"},  {15, "Q8_K"}, {24, "I8"},  {25, "I16"},
                                         {26, "I32"},  {27, "I64"},  {28, "F64"}, {40, "NVFP4"},
                                         {41, "Q1_0"}, {42, "Q2_0"}};
constexpr uint32_t kRemovedTypes[] = {4, 5, 31, 32, 33, 36, 37, 38};

std::string describe_type(uint32_t id) {
  for (const ForeignType& type : kForeignTypes) {
    if (type.id == id) return concat("type ", type.name);
  }
  const bool removed =
      std::find(std::begin(kRemovedTypes), std::end(kRemovedTypes), id) != std::end(kRemovedTypes);
  return concat(removed ? "type id " : "the unknown type id ", id,
                removed ? ", removed from the format years ago" : "");
}

std::string readable_types() {
  std::string names;
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.gguf_id != kNoGgufId) names += concat(names.empty() ? "" : " ", type.name);
  }
  return names;
}

struct TensorInfo {
  std::string_view name;
  std::vector<int64_t> shape;  // outermost first
  DType type = DType::F32;
  uint64_t offset = 0;  // from the start of the data
  uint64_t bytes = 0;
};

// One file: its metadata, and its tensors before they are added to the WeightFile.
struct Part {
  std::unique_ptr<MappedFile> file;
  GgufMetadata metadata;
  uint32_t version;
  std::vector<Tensor> tensors;
};

uint32_t read_version(GgufCursor& cursor, const std::string& path) {
  const auto magic = cursor.read<std::array<char, 4>>("the magic word");
  if (std::string_view(magic.data(), 4) != "GGUF") {
    fail(Exit::Model, path, ": starts with '", printable({magic.data(), 4}),
         "', expected 'GGUF'; it is not a GGUF file");
  }
  const auto version = cursor.read<uint32_t>("the version");
  if (version != 0 && (version & 0xffff) == 0) {
    fail(Exit::Model, path, ": is a big-endian GGUF file; skald reads little-endian ones");
  }
  if (version != 2 && version != 3) {
    fail(Exit::Model, path, ": is GGUF version ", version,
         ", skald reads 2 and 3; convert the model again");
  }
  return version;
}

uint64_t read_alignment(const GgufMetadata& metadata, const std::string& path) {
  const GgufValue* value = metadata.find("general.alignment");
  if (value && value->type != GgufType::U32) {
    fail(Exit::Model, path, ": 'general.alignment' is a ", value->type_text(),
         ", expected a u32; the file is damaged");
  }
  const uint64_t alignment = metadata.uint_or("general.alignment", kDefaultAlignment);
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    fail(Exit::Model, path, ": general.alignment is ", alignment,
         ", expected a power of two up to ", kMaxAlignment, "; the file is damaged");
  }
  return alignment;
}

TensorInfo read_tensor_info(GgufCursor& cursor, uint64_t alignment, const std::string& path) {
  TensorInfo tensor;
  tensor.name = cursor.read_string("a tensor name");
  const auto refuse = [&](auto&&... what) {
    fail(Exit::Model, path, ": tensor '", printable(tensor.name), "' ", what...);
  };
  if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes) {
    refuse("has a name of ", tensor.name.size(), " bytes, expected 1 to ", kMaxNameBytes,
           "; the file is damaged");
  }
  const auto n_dims = cursor.read<uint32_t>("a tensor's number of dimensions");
  if (n_dims < 1 || n_dims > kMostDims) {
    refuse("has ", n_dims, " dimensions, expected 1 to ", kMostDims, "; the file is damaged");
  }
  tensor.shape.resize(n_dims);
  uint64_t elems = 1;
  bool fits = true;
  for (uint32_t i = n_dims; i-- > 0;) {  // the file lists the innermost dimension first
    tensor.shape[i] = cursor.read<int64_t>("a tensor's dimension");
    if (tensor.shape[i] < 1) refuse("has a dimension of ", tensor.shape[i], ", expected 1 or more");
    if (__builtin_mul_overflow(elems, static_cast<uint64_t>(tensor.shape[i]), &elems)) fits = false;
  }
  const auto type_id = cursor.read<uint32_t>("a tensor's type");
  tensor.offset = cursor.read<uint64_t>("a tensor's offset");

  const std::optional<DType> type = dtype_from_gguf_id(type_id);
  if (!type) {
    refuse("has ", describe_type(type_id), ", which skald does not read; it reads ",
           readable_types(), "; use another quantization of the model");
  }
  tensor.type = *type;
  const DTypeInfo& format = info(*type);
  const int64_t row = tensor.shape.back();
  if (row % format.block_elems != 0) {
    refuse("has rows of ", row, " elements, expected a multiple of ", format.block_elems, " for ",
           format.name, "; the file is damaged");
  }
  const auto block_bytes = static_cast<uint64_t>(format.block_bytes);
  if (!fits || __builtin_mul_overflow(elems / format.block_elems, block_bytes, &tensor.bytes)) {
    refuse("has dimensions whose product does not fit in 64 bits; the file is damaged");
  }
  if (tensor.offset % alignment != 0) {
    refuse("starts at offset ", tensor.offset, ", expected a multiple of ", alignment,
           "; the file is damaged");
  }
  return tensor;
}

void check_places(const std::vector<TensorInfo>& tensors, uint64_t data_bytes,
                  const std::string& path) {
  std::vector<const TensorInfo*> in_order;
  in_order.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      fail(Exit::Model, path, ": tensor '", printable(tensor.name), "' needs ", tensor.bytes,
           " bytes at offset ", tensor.offset, ", but the file has only ", data_bytes,
           " bytes of data; it is incomplete or damaged");
    }
    in_order.push_back(&tensor);
  }
  std::sort(in_order.begin(), in_order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < in_order.size(); ++i) {
    const TensorInfo& before = *in_order[i - 1];
    if (in_order[i]->offset - before.offset < before.bytes) {
      fail(Exit::Model, path, ": tensors '", printable(before.name), "' and '",
           printable(in_order[i]->name), "' overlap; the file is damaged");
    }
  }
}

Part read_part(const std::filesystem::path& path) {
  auto file = std::make_unique<MappedFile>(path);
  const std::string& shown = file->path();
  GgufCursor cursor(file->bytes(), shown);
  const uint32_t version = read_version(cursor, shown);
  const auto n_tensors = cursor.read<uint64_t>("the number of tensors");
  const auto n_entries = cursor.read<uint64_t>("the number of metadata entries");
  GgufMetadata metadata(shown);
  metadata.parse(cursor, n_entries);
  const uint64_t alignment = read_alignment(metadata, shown);

  constexpr uint64_t kSmallestInfo = 8 + 1 + 4 + 8 + 4 + 8;  // a one-byte name, one dimension
  cursor.check_count(n_tensors, kSmallestInfo, "tensors");
  if (n_tensors > kMaxTensors) {
    fail(Exit::Model, shown, ": has ", n_tensors, " tensors, more than the ", kMaxTensors,
         " that skald accepts");
  }
  std::vector<TensorInfo> infos;
  infos.reserve(n_tensors);
  for (uint64_t i = 0; i < n_tensors; ++i) {
    infos.push_back(read_tensor_info(cursor, alignment, shown));
  }
  const uint64_t start = std::min((cursor.position() + alignment - 1) / alignment * alignment,
                                  uint64_t{file->bytes().size()});
  const auto data = file->bytes().subspan(start);
  check_places(infos, data.size(), shown);

  std::vector<Tensor> tensors;
  tensors.reserve(infos.size());
  for (TensorInfo& tensor : infos) {
    TensorView view = {data.data() + tensor.offset, tensor.type, 1, tensor.shape.back(), 0};
    for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) view.rows *= tensor.shape[i];
    view.row_bytes = row_bytes(view.type, view.cols);
    tensors.push_back({std::string(tensor.name), std::move(tensor.shape), view, shown});
  }
  return {std::move(file), std::move(metadata), version, std::move(tensors)};
}

// The components of PREFIX-00002-of-00003.gguf.
struct SplitName {
  std::string prefix;
  uint64_t number;  // from 1
  uint64_t count;

  std::string part(uint64_t number) const {
    char tail[64];
    std::snprintf(tail, sizeof(tail), "-%05llu-of-%05llu.gguf",
                  static_cast<unsigned long long>(number), static_cast<unsigned long long>(count));
    return prefix + tail;
  }
};

std::optional<SplitName> parse_split_name(const std::string& name) {
  constexpr std::string_view kPattern = "-ddddd-of-ddddd.gguf";  // d: a digit
  if (name.size() < kPattern.size()) return std::nullopt;
  const size_t start = name.size() - kPattern.size();
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const char c = name[start + i];
    if (kPattern[i] == 'd' ? c < '0' || c > '9' : c != kPattern[i]) return std::nullopt;
  }
  return SplitName{name.substr(0, start), std::stoul(name.substr(start + 1, 5)),
                   std::stoul(name.substr(start + 10, 5))};
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path)
    : WeightFile(path.string()), metadata_(path.string()) {
  uint64_t n_tensors = 0;
  const auto take = [&](Part part) {
    if (files_.empty()) {
      metadata_ = std::move(part.metadata);
      version_ = part.version;
    }
    files_.push_back(std::move(part.file));
    n_tensors += part.tensors.size();
    for (Tensor& tensor : part.tensors) add(std::move(tensor));
  };

  Part named = read_part(path);
  const uint64_t count = named.metadata.uint_or("split.count", 1);
  if (count <= 1) {
    take(std::move(named));
    return;
  }
  const std::optional<SplitName> name = parse_split_name(path.filename().string());
  if (!name || name->count != count) {
    fail(Exit::Model, named.file->path(), ": is one of ", count,
         " parts, and the others are found by name: expected a name that ends in "
         "-NNNNN-of-NNNNN.gguf with that count; give the parts their original names");
  }
  for (uint64_t number = 1; number <= count; ++number) {
    Part part = read_part(path.parent_path() / name->part(number));
    const GgufMetadata& metadata = part.metadata;
    if (metadata.uint("split.no") != number - 1 || metadata.uint("split.count") != count) {
      fail(Exit::Model, part.file->path(), ": says that it is part ", metadata.uint("split.no") + 1,
           " of ", metadata.uint("split.count"), ", expected ", number, " of ", count,
           "; give the parts their original names");
    }
    take(std::move(part));
  }
  const uint64_t expected = metadata_.uint("split.tensors.count");
  if (n_tensors != expected) {
    fail(Exit::Model, files_[0]->path(), ": the ", count, " parts have ", n_tensors,
         " tensors, expected ", expected, "; a part belongs to another model");
  }
}

void GgufFile::check_whole() const {
  for (const auto& file : files_) file->check_whole();
}

std::shared_ptr<const GgufFile> open_gguf(const std::filesystem::path& path) {
  return std::make_shared<const GgufFile>(path);
}

}  // namespace skald
