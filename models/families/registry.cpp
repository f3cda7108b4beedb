#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/family.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

const Family* const kFamilies[] = {
#define FAMILY(name) &k##name,
#include "models/families/list.inc"
#undef FAMILY
};

using Types = std::span<const std::string_view> Family::*;

const Family& find(std::string_view type, Types types, std::string_view where) {
  std::string known;
  for (const Family* family : kFamilies) {
    for (std::string_view candidate : family->*types) {
      if (candidate == type) return *family;
      known += concat(known.empty() ? "" : ", ", candidate);
    }
  }
  throw UnknownFamily(
      concat(where, ": the architecture '", type, "' is not supported; these are: ", known));
}

}  // namespace

std::string hf_type(const HfConfig& config) {
  const std::string type = config.text("model_type");
  if (!config.has("text_config")) return type;
  const std::string both =
      concat(type, "/", config.object("text_config").text_or("model_type", ""));
  for (const Family* family : kFamilies) {
    for (std::string_view candidate : family->hf_types) {
      if (candidate == both) return both;
    }
  }
  return type;
}

const Family& family_for_hf(std::string_view model_type, std::string_view where) {
  return find(model_type, &Family::hf_types, where);
}

const Family& family_for_gguf(std::string_view architecture, std::string_view where) {
  return find(architecture, &Family::gguf_types, where);
}

}  // namespace skald
