// The parts of one quantized matrix: tensors such as "q_proj.qweight" and "q_proj.scales", which
// together mean the matrix "q_proj.weight".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

struct Part {
  std::string name;                  // of its matrix and its kind: "blk.0.attn_q.qweight"
  std::string type;                  // safetensors' spelling: "I32"
  std::vector<int64_t> shape;        // outermost first
  std::span<const std::byte> bytes;  // may be unaligned
  std::string file;                  // for messages
};

// A shape in which kAny stands for any size of at least 1.
inline constexpr int64_t kAny = -1;
using Shape = std::initializer_list<int64_t>;
using Types = std::initializer_list<std::string_view>;

class Parts {
 public:
  explicit Parts(std::string module) : module_(std::move(module)) {}

  void add(std::string kind, Part part) { parts_.insert({std::move(kind), std::move(part)}); }
  const std::string& module() const { return module_; }  // "blk.0.attn_q"
  std::string matrix() const { return module_ + ".weight"; }
  const Part* find(std::string_view kind) const;  // nullptr: there is none
  // Throws unless the part is there, of one of the types, and has the shape.
  const Part& get(std::string_view kind, Types types, Shape shape) const;
  // Throws if there is a part of another kind.
  void refuse_others(std::initializer_list<std::string_view> kinds) const;
  // Throws if a part has three dimensions.
  void refuse_stack() const;
  const Part& any() const { return parts_.begin()->second; }  // for messages

 private:
  std::string module_;
  std::map<std::string, Part, std::less<>> parts_;
};

// Throws an Error about a part: "FILE: tensor 'NAME' is I32 [8, 64], expected WHAT".
[[noreturn]] void refuse_part(const Part& part, std::string_view expected);

// The numbers of a part as floats.
class Numbers {
 public:
  static constexpr std::string_view kTypes[] = {"F32", "F16", "BF16", "F8_E4M3", "F8_E8M0"};

  Numbers() = default;
  explicit Numbers(const Part& part);  // throws if the part has none of kTypes
  int64_t count() const { return count_; }
  float at(int64_t i) const;
  bool all_f16() const;  // true if f16 holds each of them exactly

 private:
  enum class Kind : uint8_t { F32, F16, BF16, E4M3, E8M0 };
  const std::byte* data_ = nullptr;
  int64_t count_ = 0;
  Kind kind_ = Kind::F32;
};

// The words of an I32 part.
class Words {
 public:
  Words() = default;
  explicit Words(const Part& part) : data_(part.bytes.data()) {}
  uint32_t at(int64_t i) const;

 private:
  const std::byte* data_ = nullptr;
};

}  // namespace skald
