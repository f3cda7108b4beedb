#include "app/inspect/adapter_report.h"

#include <algorithm>
#include <map>

#include "app/files/json.h"
#include "app/inspect/shape_text.h"
#include "app/terminal/table.h"
#include "engine/base/counted.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

// The last part of a module's name, with the number of matrices of that name.
std::map<std::string, int64_t> count_kinds(const LoraFile& file) {
  std::map<std::string, int64_t> kinds;
  for (const LoraPair& pair : file.pairs) ++kinds[pair.module.substr(pair.module.rfind('.') + 1)];
  return kinds;
}

std::vector<int64_t> shape_of(const LoraPair& pair) {
  return {pair.b->view.rows, pair.a->view.cols};
}

}  // namespace

std::string adapter_text(const LoraFile& file, bool tensors) {
  int64_t least = file.pairs.front().rank(), most = least, bytes = 0;
  for (const LoraPair& pair : file.pairs) {
    least = std::min(least, pair.rank());
    most = std::max(most, pair.rank());
    bytes += pair.a->view.bytes() + pair.b->view.bytes();
  }
  std::string kinds;
  for (const auto& [kind, count] : count_kinds(file)) {
    kinds += concat(kinds.empty() ? "" : ", ", count, " ", printable(kind, 60));
  }
  std::string out = concat(file.path, "\n  adapter     LoRA, ", file.gguf ? "GGUF" : "PEFT folder",
                           ", for use with --lora\n");
  if (!file.architecture.empty()) {
    out += concat("  for models  of architecture ", printable(file.architecture, 80), "\n");
  }
  if (!file.base.empty()) out += concat("  made for    ", printable(file.base), "\n");
  out += concat("  matrices    ", file.pairs.size(), ": ", kinds, "\n");
  out += concat("  rank        ", least, most > least ? concat(" to ", most) : "", "\n");
  out += concat("  factors     ", size_text(bytes), "\n");
  if (!tensors) return out;
  Table table{{"matrix", "shape", "rank", "scale", "type"}, {}};
  for (const LoraPair& pair : file.pairs) {
    table.rows.push_back({printable(pair.module), shape_text(shape_of(pair)),
                          std::to_string(pair.rank()), concat(pair.scale),
                          std::string(name(pair.b->view.type))});
  }
  return out + "\n" + to_text(table);
}

std::string adapter_json(const LoraFile& file) {
  Json matrices = Json::array();
  for (const LoraPair& pair : file.pairs) {
    matrices.push_back({{"name", printable(pair.module, 4096)},
                        {"shape", shape_of(pair)},
                        {"rank", pair.rank()},
                        {"scale", pair.scale},
                        {"type", name(pair.b->view.type)}});
  }
  const Json report = {{"adapter", "lora"},
                       {"path", file.path},
                       {"format", file.gguf ? "GGUF" : "PEFT"},
                       {"architecture", printable(file.architecture, 4096)},
                       {"base_model", printable(file.base, 4096)},
                       {"matrices", matrices}};
  return dump(report, 2) + "\n";
}

}  // namespace skald
