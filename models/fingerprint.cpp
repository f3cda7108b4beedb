#include "models/fingerprint.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/read_stream.h"
#include "engine/base/sha256.h"
#include "models/files/gguf.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWhole = 4096, kPieces = 16, kPieceBytes = 256;

bool is_configuration(std::string_view key) {
  if (key == "general.architecture") return true;
  for (const std::string_view other : {"general.", "split.", "tokenizer."}) {
    if (key.starts_with(other)) return false;
  }
  return true;
}

void add_metadata(Sha256& hash, const GgufMetadata& metadata) {
  std::vector<const GgufValue*> values;
  for (const GgufValue& value : metadata.values()) {
    if (is_configuration(value.key)) values.push_back(&value);
  }
  std::sort(values.begin(), values.end(), [](auto* a, auto* b) { return a->key < b->key; });
  for (const GgufValue* value : values) {
    hash.add_field(value->key);
    hash.add_field(type_name(value->type)).add_field(type_name(value->element));
    hash.add_number(value->count).add_number(value->bytes.size()).add(value->bytes);
  }
}

void add_config_file(Sha256& hash, const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text = rest_of(in);
  if (in.bad() || text.empty()) fail(Exit::Model, printable(file.string()), ": cannot be read");
  hash.add_field(text);
}

// Calls add(at, count) for all bytes of few, and for samples of many.
void add_pieces(int64_t bytes, const std::function<void(int64_t at, int64_t count)>& add) {
  if (bytes <= kWhole) return add(0, bytes);
  for (int64_t i = 0; i < kPieces; ++i) {
    // bytes / 15 * i would miss the end, and bytes * i may overflow 64 bits.
    const int64_t room = bytes - kPieceBytes;
    const int64_t at = room / (kPieces - 1) * i + room % (kPieces - 1) * i / (kPieces - 1);
    add(at, kPieceBytes);
  }
}

void add_tensor(Sha256& hash, const WeightFile& weights, const Tensor& tensor) {
  hash.add_field(tensor.name).add_field(name(tensor.view.type)).add_number(tensor.shape.size());
  for (const int64_t size : tensor.shape) hash.add_number(static_cast<uint64_t>(size));
  std::byte piece[kWhole];
  add_pieces(tensor.view.bytes(), [&](int64_t at, int64_t count) {
    const std::span read(piece, static_cast<size_t>(count));
    weights.read(tensor, at, read);
    hash.add(read);
  });
}

void add_tensors(Sha256& hash, const WeightFile& weights) {
  std::vector<const Tensor*> tensors;
  for (const Tensor& tensor : weights.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](auto* a, auto* b) { return a->name < b->name; });
  hash.add_number(tensors.size());
  for (const Tensor* tensor : tensors) add_tensor(hash, weights, *tensor);
}

void hash_adapters(Sha256& hash, std::string_view how, const Adapters* adapters) {
  if (!adapters) return;
  hash.add_field(how).add_number(adapters->size());
  for (const Adapter& adapter : *adapters) {
    hash.add_field(adapter.name).add_number(adapter.matrices.size());
    for (const AdapterMatrix& matrix : adapter.matrices) {
      hash.add_field(matrix.tensor).add_number(static_cast<uint64_t>(matrix.rank));
      for (const std::vector<float>* factor : {&matrix.down, &matrix.up}) {
        const auto bytes = std::as_bytes(std::span(*factor));
        add_pieces(std::ssize(bytes), [&](int64_t at, int64_t count) {
          hash.add(bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
        });
      }
    }
  }
}

}  // namespace

std::string weights_hash(const WeightFile& weights) {
  weights.check_whole();
  Sha256 hash;
  add_tensors(hash, weights);
  return hash.hex();
}

std::string model_hash(const OpenedModel& opened) {
  const WeightFile& weights = *opened.model.weights;
  weights.check_whole();
  Sha256 hash;
  hash.add_field("skald model 1");
  if (opened.gguf) {
    add_metadata(hash, opened.gguf->metadata());
  } else {
    add_config_file(hash, opened.path / "config.json");
  }
  add_tensors(hash, weights);
  hash_adapters(hash, "adapters", opened.model.adapters.get());
  hash_adapters(hash, "merged adapters", opened.merged.get());
  return hash.hex();
}

}  // namespace skald
