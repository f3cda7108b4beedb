#include "app/model/lora_flags.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/adapters/load.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

struct NamedUse {
  std::string name;
  LoraUse use;
};

// A colon may also be a part of the path, so an existing path is taken as it is.
LoraUse parse_use(const std::string& text) {
  std::error_code error;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || fs::exists(text, error)) return {text};
  const std::string_view number = std::string_view(text).substr(colon + 1);
  LoraUse use{text.substr(0, colon)};
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), use.scale);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
  if (!whole && !fs::exists(use.path, error)) return {text};  // opening says that it is not there
  if (!whole || !std::isfinite(use.scale)) {
    fail(Exit::Usage, "--lora '", printable(text, 4096), "': '", printable(number, 80),
         "' is no scale; expected PATH:SCALE with a number, such as :0.5");
  }
  return use;
}

NamedUse parse(const std::string& text, bool names) {
  std::error_code error;
  const size_t sign = text.find('=');
  if (!names || sign == std::string::npos || fs::exists(text, error)) return {"", parse_use(text)};
  if (sign == 0) {
    fail(Exit::Usage, "--lora '", printable(text, 4096), "': the name before = is empty");
  }
  return {text.substr(0, sign), parse_use(text.substr(sign + 1))};
}

}  // namespace

void add_lora_flags(Command& command, LoraFlags& flags) {
  command
      .option("--lora", flags.uses,
              flags.names ? "Change lines whose field model is NAME, or all, by an adapter; repeats"
                          : "Change the model by a PEFT folder or GGUF adapter; may be repeated")
      .type_name(flags.names ? "[NAME=]PATH[:SCALE]" : "PATH[:SCALE]")
      .check(not_empty())
      .repeatable()
      .group(kChangesOutput);
  command
      .flag("--lora-merge", flags.merge, "Merge --lora into weights that are floats while loading")
      .group(kChangesOutput);
}

void refuse_adapters(const LoraFlags& flags) {
  if (flags.uses.empty() && !flags.merge) return;
  fail(Exit::Usage, "--lora changes a model from a file; leave out --lora or --shape");
}

void add_adapters(const LoraFlags& flags, OpenedModel& opened) {
  if (flags.uses.empty()) {
    if (flags.merge) fail(Exit::Usage, "--lora-merge needs --lora; give an adapter");
    return;
  }
  if (opened.model.shard.of > 1) {
    fail(Exit::Usage, "--lora works with one GPU or the CPU; leave out --tp");
  }
  std::vector<std::string> order;  // of the names
  std::map<std::string, std::vector<LoraUse>> uses;
  for (const std::string& text : flags.uses) {
    NamedUse named = parse(text, flags.names);
    std::vector<LoraUse>& same = uses[named.name];
    if (same.empty()) order.push_back(named.name);
    same.push_back(std::move(named.use));
  }
  const bool has_names = order.size() > 1 || !order.front().empty();
  if (has_names && uses.contains("")) {
    fail(Exit::Usage,
         "--lora: either every adapter has a name (NAME=PATH) or none; with names, each "
         "line chooses one");
  }
  if (has_names && flags.merge) {
    fail(Exit::Usage, "--lora-merge changes the model for all lines; give --lora without names");
  }
  const auto adapters = std::make_shared<Adapters>();
  if (has_names) adapters->emplace_back();
  for (const std::string& name : order) {
    adapters->push_back(load_adapter(opened, name, uses[name]));
  }
  if (flags.merge) {
    opened.model = merged_model(opened.model, adapters);
    opened.merged = adapters;
    return;
  }
  opened.model.adapters = adapters;
  opened.model.program();  // finds matrices that no adapter can change now
}

}  // namespace skald
