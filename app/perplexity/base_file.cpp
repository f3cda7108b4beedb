#include "app/perplexity/base_file.h"

#include <filesystem>
#include <fstream>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

std::unique_ptr<BaseReader> open_base_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return nullptr;
  char magic[8] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  const std::string_view begin(magic, sizeof magic);
  if (begin == "_logits_") return read_llama_logits(path);
  if (begin == kCompactBase) return read_compact_base(path);
  if (begin.starts_with(kCompactBase.substr(0, 7))) {
    fail(Exit::Failed, printable(path),
         ": another version of skald wrote this base file; write it again with --save-base");
  }
  return nullptr;
}

}  // namespace skald
