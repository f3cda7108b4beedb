#include "app/model/expert_use.h"

#include <cmath>

#include "app/files/json.h"
#include "engine/base/error.h"

namespace skald {

std::string expert_use_text(const ExpertUse& use) {
  const int64_t all = use.all();
  if (all == 0) return "";
  const auto share = [all](int64_t count) {
    return std::lround(100 * static_cast<double>(count) / static_cast<double>(all));
  };
  return concat("chosen experts: ", share(use.found), " % in the GPU's cache, ", share(use.copied),
                " % copied to it, ", share(use.others), " % read or computed on the host");
}

Json expert_use_json(const ExpertUse& use) {
  if (use.all() == 0) return nullptr;
  return {{"found", use.found}, {"copied", use.copied}, {"on_host", use.others}};
}

}  // namespace skald
