#include "models/checkpoints/parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/float8.h"
#include "engine/base/half.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (const int64_t dim : shape) {
    out += concat(out.size() > 1 ? ", " : "", dim == kAny ? std::string("any") : concat(dim));
  }
  return out + "]";
}

std::string types_text(std::span<const std::string_view> types) {
  std::string out;
  for (const std::string_view type : types) out += concat(out.empty() ? "" : " or ", type);
  return out;
}

}  // namespace

void refuse_part(const Part& part, std::string_view expected) {
  fail(Exit::Model, part.file, ": tensor '", printable(part.name), "' is ", part.type, " ",
       shape_text(part.shape), ", expected ", expected);
}

const Part* Parts::find(std::string_view kind) const {
  const auto found = parts_.find(kind);
  return found == parts_.end() ? nullptr : &found->second;
}

const Part& Parts::get(std::string_view kind, Types types, Shape shape) const {
  const Part* part = find(kind);
  if (!part) {
    fail(Exit::Model, any().file, ": tensor '", printable(any().name), "' has no '", kind,
         "' beside it, which belongs to the same quantized matrix; download the model again");
  }
  const bool typed = std::find(types.begin(), types.end(), part->type) != types.end();
  const bool shaped = std::equal(
      shape.begin(), shape.end(), part->shape.begin(), part->shape.end(),
      [](int64_t wanted, int64_t dim) { return dim > 0 && (wanted == kAny || wanted == dim); });
  if (!typed || !shaped)
    refuse_part(*part, concat(types_text({types.begin(), types.size()}), " ",
                              shape_text({shape.begin(), shape.size()})));
  return *part;
}

void Parts::refuse_others(std::initializer_list<std::string_view> kinds) const {
  for (const auto& [kind, part] : parts_) {
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    fail(Exit::Model, part.file, ": tensor '", printable(part.name),
         "' belongs to no quantized matrix of this method; use the original model or a GGUF");
  }
}

void Parts::refuse_stack() const {
  for (const auto& [kind, part] : parts_) {
    if (part.shape.size() > 2)
      refuse_part(part, "a matrix; stacks of quantized experts are not read");
  }
}

Numbers::Numbers(const Part& part) : data_(part.bytes.data()) {
  const auto* type = std::find(std::begin(kTypes), std::end(kTypes), part.type);
  if (type == std::end(kTypes)) refuse_part(part, types_text(kTypes));
  kind_ = static_cast<Kind>(type - kTypes);
  count_ = 1;
  for (const int64_t dim : part.shape) count_ *= dim;
}

float Numbers::at(int64_t i) const {
  const auto byte = [&] { return static_cast<uint8_t>(data_[i]); };
  const auto half = [&] {
    uint16_t bits;
    std::memcpy(&bits, data_ + 2 * i, sizeof bits);
    return bits;
  };
  switch (kind_) {
    case Kind::F16:
      return f16_to_f32(half());
    case Kind::BF16:
      return bf16_to_f32(half());
    case Kind::E4M3:
      return e4m3_to_f32(byte());
    case Kind::E8M0:
      return e8m0_to_f32(byte());
    case Kind::F32:
      break;
  }
  float value;
  std::memcpy(&value, data_ + 4 * i, sizeof value);
  return value;
}

bool Numbers::all_f16() const {
  if (kind_ == Kind::F16) return true;
  for (int64_t i = 0; i < count_; ++i) {
    const float number = at(i);
    // Normal numbers of f16: eight bits of precision are always enough, as bf16 and FP8 have them.
    const float size = std::fabs(number);
    if (kind_ != Kind::F32 && size >= 0x1p-14F && size < 0x1p15F) continue;
    if (f16_to_f32(f32_to_f16(number)) != number) return false;
  }
  return true;
}

uint32_t Words::at(int64_t i) const {
  uint32_t word;
  std::memcpy(&word, data_ + 4 * i, sizeof word);
  return word;
}

}  // namespace skald
