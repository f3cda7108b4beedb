#include "app/perplexity/base_file.h"

#include <filesystem>
#include <fstream>

namespace skald {

std::unique_ptr<BaseReader> open_base_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return nullptr;
  char magic[8] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  const std::string_view begin(magic, sizeof magic);
  if (begin == "_logits_") return read_llama_logits(path);
  if (begin == "SKALDKL1") return read_compact_base(path);
  return nullptr;
}

}  // namespace skald
