#include "models/files/gguf_head.h"

#include <cstring>

#include "engine/base/error.h"

namespace skald {
namespace {

constexpr int64_t kAlignment = 32;  // the format's default, which need not be written

int64_t padded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <class Number>
void append_raw(std::string& out, Number number) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  out.append(bytes, sizeof(Number));
}

void append_string(std::string& out, std::string_view text) {
  append_raw<uint64_t>(out, text.size());
  out.append(text);
}

}  // namespace

template <class Number>
void GgufHead::append(Number number) {
  append_raw(entries_, number);
}

void GgufHead::append_text(std::string_view text) { append_string(entries_, text); }

void GgufHead::begin(std::string_view key, GgufType type) {
  check(keys_.insert(std::string(key)).second, "a GGUF key is put once");
  append_text(key);
  append(static_cast<uint32_t>(type));
}

void GgufHead::begin_array(std::string_view key, GgufType element, uint64_t count) {
  begin(key, GgufType::Array);
  append(static_cast<uint32_t>(element));
  append(count);
}

void GgufHead::put_u32(std::string_view key, int64_t value) {
  check(value >= 0 && value <= UINT32_MAX, "a number for GGUF fits in 32 bits");
  begin(key, GgufType::U32);
  append(static_cast<uint32_t>(value));
}

void GgufHead::put_f32(std::string_view key, double value) {
  begin(key, GgufType::F32);
  append(static_cast<float>(value));
}

void GgufHead::put_bool(std::string_view key, bool value) {
  begin(key, GgufType::Bool);
  append(static_cast<uint8_t>(value));
}

void GgufHead::put_text(std::string_view key, std::string_view text) {
  begin(key, GgufType::String);
  append_text(text);
}

void GgufHead::put_texts(std::string_view key, std::span<const std::string> texts) {
  begin_array(key, GgufType::String, texts.size());
  for (const std::string& text : texts) append_text(text);
}

void GgufHead::put_floats(std::string_view key, std::span<const float> values) {
  begin_array(key, GgufType::F32, values.size());
  for (float value : values) append(value);
}

void GgufHead::put_bools(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, GgufType::Bool, values.size());
  for (const bool value : values) append(static_cast<uint8_t>(value));
}

void GgufHead::put_ints(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, GgufType::I32, values.size());
  for (int32_t value : values) append(value);
}

void GgufHead::put(const GgufValue& value) {
  const std::string_view bytes(reinterpret_cast<const char*>(value.bytes.data()),
                               value.bytes.size());
  if (value.is_array()) {
    begin_array(value.key, value.element, value.count);
    entries_.append(bytes);
  } else {
    begin(value.key, value.type);
    if (value.type == GgufType::String) {
      append_text(bytes);
    } else {
      entries_.append(bytes);
    }
  }
}

void GgufHead::add_tensor(std::string_view name, std::span<const int64_t> shape, DType type) {
  check(!shape.empty(), "a tensor has a shape");
  TensorInfo tensor;
  append_string(tensor.info, name);
  append_raw(tensor.info, static_cast<uint32_t>(shape.size()));
  int64_t rows = 1;
  for (size_t i = shape.size(); i-- > 0;) {  // innermost first
    append_raw(tensor.info, shape[i]);
    if (i + 1 < shape.size()) rows *= shape[i];
  }
  check(info(type).gguf_id != kNoGgufId, "GGUF has the format");
  append_raw(tensor.info, static_cast<uint32_t>(info(type).gguf_id));
  tensor.bytes = rows * row_bytes(type, shape.back());
  tensors_.push_back(std::move(tensor));
}

std::string GgufHead::unpadded_text() const {
  constexpr uint32_t kVersion = 3;
  std::string out = "GGUF";
  append_raw(out, kVersion);
  append_raw<uint64_t>(out, tensors_.size());
  append_raw<uint64_t>(out, keys_.size());
  out += entries_;
  int64_t offset = 0;
  for (const TensorInfo& tensor : tensors_) {
    out += tensor.info;
    append_raw<uint64_t>(out, static_cast<uint64_t>(offset));
    offset += padded(tensor.bytes);
  }
  return out;
}

std::string GgufHead::text() const {
  std::string out = unpadded_text();
  out.resize(static_cast<size_t>(padded(static_cast<int64_t>(out.size()))));
  return out;
}

std::vector<GgufHead::Place> GgufHead::places() const {
  std::vector<Place> all;
  int64_t offset = padded(static_cast<int64_t>(unpadded_text().size()));
  for (const TensorInfo& tensor : tensors_) {
    all.push_back({offset, tensor.bytes});
    offset += padded(tensor.bytes);
  }
  return all;
}

int64_t GgufHead::file_bytes() const {
  int64_t bytes = padded(static_cast<int64_t>(unpadded_text().size()));
  for (const TensorInfo& tensor : tensors_) bytes += padded(tensor.bytes);
  return bytes;
}

}  // namespace skald
