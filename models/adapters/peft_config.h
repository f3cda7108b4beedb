// The adapter_config.json of a PEFT folder: which scale the changes of a matrix have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald {

class HfConfig;

class PeftConfig {
 public:
  // Throws Error(Exit::Model) for a kind of adapter that skald does not compute.
  static PeftConfig read(const std::filesystem::path& file);

  int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;  // alpha / rank, or alpha / sqrt(rank)
  const std::string& base() const { return base_; }
  const std::string& where() const { return where_; }

 private:
  // Ends of modules' names, each with a value of its own.
  using Pattern = std::vector<std::pair<std::string, double>>;
  static Pattern read_pattern(const HfConfig& config, std::string_view key);
  double value_of(const Pattern& pattern, std::string_view key, std::string_view module,
                  double otherwise) const;

  std::string where_, base_;
  double rank_ = 0, alpha_ = 0;
  bool by_root_ = false;  // use_rslora
  Pattern ranks_, alphas_;
};

}  // namespace skald
