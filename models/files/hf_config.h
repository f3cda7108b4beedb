// A config.json as Hugging Face writes it, in the spelling of transformers 4.x and 5.x. Lookups
// name file, key, expected and found when the value has another type or lies out of range.
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

  bool mentions(std::string_view key) const;
  bool has(std::string_view key) const;  // mentions it, and it is not null
  int64_t integer(std::string_view key, int64_t least, int64_t most) const;
  int64_t integer_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  HfConfig object(std::string_view key) const;
  HfConfig with(std::string_view key, const HfConfig& object) const;  // a copy where key is that
  // A copy where keys that are not mentioned are those of a JSON object: what the class that reads
  // the configuration in Hugging Face's library has where a file is silent.
  HfConfig with_defaults(std::string_view json) const;
  std::vector<int64_t> integers(std::string_view key) const;  // one number counts as a list of one
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
