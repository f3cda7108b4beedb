#include "models/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/quant/dtype.h"
#include "models/files/safetensors_json.h"

namespace skald {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's limit

struct DTypeBits {
  std::string_view name;
  uint64_t bits;
};
constexpr DTypeBits kAllTypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64}};

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (uint64_t dim : shape) out += concat(out.size() > 1 ? ", " : "", dim);
  return out + "]";
}

// The size of a tensor. Throws an Error if its type is unknown or its size impossible.
uint64_t tensor_bytes(const SafetensorsEntry& entry, const std::string& path) {
  const auto row = std::find_if(std::begin(kAllTypes), std::end(kAllTypes),
                                [&](const DTypeBits& type) { return type.name == entry.dtype; });
  if (row == std::end(kAllTypes)) {
    fail(Exit::Model, path, ": tensor '", printable(entry.name), "' has the unknown type '",
         printable(entry.dtype), "'; the file is damaged, download it again");
  }
  uint64_t bits = row->bits;
  bool fits = true;
  for (uint64_t dim : entry.shape) fits = fits && !__builtin_mul_overflow(bits, dim, &bits);
  if (!fits || bits % 8 != 0) {
    fail(Exit::Model, path, ": tensor '", printable(entry.name), "' is ", entry.dtype, " ",
         shape_text(entry.shape),
         ", an impossible number of bytes; the file is damaged, download it again");
  }
  return bits / 8;
}

// Sorts the entries by position and checks that they cover the data exactly.
void check_places(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes,
                  const std::string& path) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t place = 0;
  for (const SafetensorsEntry& entry : entries) {
    const auto refuse = [&](auto&&... what) {
      fail(Exit::Model, path, ": tensor '", printable(entry.name), "' ", what...,
           "; the file is incomplete or damaged");
    };
    if (entry.end < entry.begin || entry.end > data_bytes) {
      refuse("has data_offsets [", entry.begin, ", ", entry.end, "), but there are ", data_bytes,
             " bytes of data");
    }
    if (entry.begin != place) {
      refuse("starts at byte ", entry.begin, ", expected ", place,
             ": data may neither overlap nor ", "have holes");
    }
    const uint64_t bytes = tensor_bytes(entry, path);
    if (entry.end - entry.begin != bytes) {
      refuse("is ", entry.dtype, " ", shape_text(entry.shape), ", which needs ", bytes,
             " bytes, but its data_offsets give ", entry.end - entry.begin);
    }
    place = entry.end;
  }
  if (place != data_bytes) {
    // By position
    fail(Exit::Model, path, ": has ", data_bytes, " bytes of data, but its tensors need ", place,
         "; the file is damaged, download it again");
  }
}

struct Header {
  std::vector<SafetensorsEntry> entries;  // by place
  std::span<const std::byte> data;
};

Header read_header(const MappedFile& file) {
  const auto bytes = file.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    fail(Exit::Model, file.path(), ": has only ", bytes.size(),
         " bytes, too few for a safetensors file");
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  const uint64_t left = bytes.size() - sizeof(length);
  if (length > left) {
    fail(Exit::Model, file.path(), ": says that its header has ", length, " bytes, but only ", left,
         " follow; it is incomplete, or no safetensors file");
  }
  if (length > kMaxHeaderBytes) {
    fail(Exit::Model, file.path(), ": has a header of ", length, " bytes, at most ",
         kMaxHeaderBytes, " are allowed");
  }
  const auto json = bytes.subspan(sizeof(length), length);
  Header header;
  header.data = bytes.subspan(sizeof(length) + length);
  header.entries = parse_safetensors_header(
      {reinterpret_cast<const char*>(json.data()), json.size()}, file.path());
  check_places(header.entries, header.data.size(), file.path());
  return header;
}

RawTensor make_raw(const SafetensorsEntry& entry, std::string name, std::span<const std::byte> data,
                   const std::string& path) {
  return {std::move(name),
          entry.dtype,
          {entry.shape.begin(), entry.shape.end()},
          data.subspan(entry.begin, entry.end - entry.begin),
          path};
}

Tensor make_tensor(const SafetensorsEntry& entry, DType type, std::string name,
                   std::span<const std::byte> data, const std::string& path) {
  if (entry.end == entry.begin) {
    fail(Exit::Model, path, ": tensor '", printable(entry.name),
         "' is empty: ", shape_text(entry.shape));
  }
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.shape.assign(entry.shape.begin(), entry.shape.end());
  if (tensor.shape.empty()) tensor.shape = {1};
  tensor.view = {data.data() + entry.begin, type, 1, tensor.shape.back(), 0};
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) tensor.view.rows *= tensor.shape[i];
  tensor.view.row_bytes = row_bytes(type, tensor.view.cols);
  tensor.file = path;
  return tensor;
}

// A shard's name comes from the index, which may be hostile, so it must stay inside the folder. The
// name may be a symbolic link: Hugging Face's cache consists of them.
void check_shard_name(const std::string& name, const std::string& index) {
  constexpr std::string_view kSuffix = ".safetensors";
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
      name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) {
    fail(Exit::Model, index, ": weight_map has the file name '", printable(name),
         "', expected a plain name that ends in .safetensors; the file is damaged or hostile");
  }
}

std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxHeaderBytes) {
    fail(Exit::Model, file.path(), ": has ", file.bytes().size(), " bytes, at most ",
         kMaxHeaderBytes, " are allowed for an index");
  }
  auto weight_map = parse_safetensors_index(
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, file.path());
  for (const auto& [tensor, shard] : weight_map) check_shard_name(shard, file.path());
  return weight_map;
}

struct Layout {
  std::vector<std::filesystem::path> files;
  std::map<std::string, std::string> weight_map;  // empty if there is no index
};

Layout find_files(const std::filesystem::path& path) {
  std::error_code ignored;  // a path that cannot be examined fails when it is opened
  if (!std::filesystem::is_directory(path, ignored)) return {{path}, {}};
  const auto single = path / "model.safetensors";
  if (std::filesystem::exists(single, ignored)) return {{single}, {}};
  const auto index = path / "model.safetensors.index.json";
  if (!std::filesystem::exists(index, ignored)) {
    fail(Exit::Model, printable(path.native(), 4096),
         ": has neither model.safetensors nor model.safetensors.index.json; convert the model to "
         "safetensors, or give a GGUF file");
  }
  Layout layout;
  layout.weight_map = read_index(index);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : layout.weight_map) shards.insert(shard);
  for (const std::string& shard : shards) layout.files.push_back(path / shard);
  return layout;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& folder_or_file,
                                 const TensorRename& rename, RawTensors raw)
    : WeightFile(folder_or_file.string()) {
  const Layout layout = find_files(folder_or_file);
  std::map<std::string, std::string> found;  // tensor to file name; only with an index
  for (const std::filesystem::path& path : layout.files) {
    files_.push_back(std::make_unique<MappedFile>(path));
    const std::string& shown = files_.back()->path();
    const Header header = read_header(*files_.back());
    for (const SafetensorsEntry& entry : header.entries) {
      if (!layout.weight_map.empty() &&
          !found.emplace(entry.name, path.filename().string()).second) {
        fail(Exit::Model, shown, ": tensor '", printable(entry.name), "' is in ",
             printable(found[entry.name]), " too; the shards belong to different models");
      }
      std::string name = rename(entry.name);
      if (name.empty()) continue;
      if (const std::optional<DType> type = dtype_from_safetensors(entry.dtype)) {
        add(make_tensor(entry, *type, std::move(name), header.data, shown));
        continue;
      }
      if (raw == RawTensors::Refused) refuse_raw(make_raw(entry, entry.name, header.data, shown));
      raw_.push_back(make_raw(entry, std::move(name), header.data, shown));
    }
  }
  for (const auto& [tensor, shard] : layout.weight_map) {
    const auto place = found.find(tensor);
    if (place == found.end() || place->second != shard) {
      fail(Exit::Model, printable((folder_or_file / shard).native(), 4096), ": tensor '",
           printable(tensor),
           "' should be here, says the index, but is not; download the model again");
    }
  }
}

void refuse_raw(const RawTensor& tensor) {
  fail(Exit::Model, tensor.file, ": tensor '", printable(tensor.name), "' is ", tensor.type,
       ", and skald reads F32, F16 and BF16 from safetensors; use a model in one of these, or a "
       "GGUF file for a quantized one");
}

void SafetensorsFile::check_whole() const {
  for (const auto& file : files_) file->check_whole();
}

std::shared_ptr<const SafetensorsFile> open_safetensors(const std::filesystem::path& folder_or_file,
                                                        const TensorRename& rename,
                                                        RawTensors raw) {
  return std::make_shared<const SafetensorsFile>(folder_or_file, rename, raw);
}

}  // namespace skald
