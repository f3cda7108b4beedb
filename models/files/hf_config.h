// A config.json of Hugging Face, as transformers 4.x and 5.x write it. If a value has the wrong
// type or is out of range, the Error names file, key, expected and found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

class HfConfig {
 public:
  static HfConfig read(const std::filesystem::path& file);  // throws Error(Exit::Model)
  // The same from a text in memory; `where` names it in messages.
  static HfConfig parse(const std::string& text, const std::string& where);

  bool mentions(std::string_view key) const;
  bool has(std::string_view key) const;  // mentions it, and the value is not null
  // True if the value is missing, null, false, 0, or an empty text, list or object.
  bool says_nothing(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t least, int64_t most) const;
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool is_object(std::string_view key) const;
  bool is_text(std::string_view key) const;
  HfConfig object(std::string_view key) const;
  // A copy with one object replaced
  HfConfig with(std::string_view key, const HfConfig& object) const;
  // A copy in which missing keys are taken from a JSON object, which holds the defaults of the
  // configuration's class in Hugging Face's library.
  HfConfig with_defaults(std::string_view json) const;
  // A single number counts as a list of one
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;
  std::vector<std::string> keys() const;
  const std::string& where() const { return where_; }  // file, and path inside it

 private:
  struct Json;
  HfConfig(std::shared_ptr<const Json> json, std::string where);

  std::shared_ptr<const Json> json_;
  std::string where_;
};

}  // namespace skald
