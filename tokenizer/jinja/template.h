// A chat template: parsed once, rendered as often as one likes, by any number of threads. Behaves
// as Jinja2 does under the settings of transformers (trim_blocks, lstrip_blocks, its tojson,
// raise_exception and strftime_now, break and continue, generation blocks), or says why not: a
// template runs inside limits, has no way to anything but its variables, and cannot change those.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

struct Tree;

struct RenderOptions {
  Limits limits = {};
  std::optional<std::tm> now = {};  // what strftime_now() sees; unset: the clock
};

class Template {
 public:
  // name: of the source, for messages. Throws Error(Exit::Model) with the line.
  Template(std::string name, std::string_view text);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // Throws Error(Exit::Failed) with the line and the reason.
  std::string render(const Dict& variables, const RenderOptions& options = {}) const;

 private:
  std::string name_;
  std::unique_ptr<const Tree> tree_;
};

// JSON as a value: keys keep their order, whole numbers stay whole. Throws Error(Exit::Usage) with
// `name`: no valid JSON, nested too deeply, a whole number beyond 64 bits.
Value from_json(std::string_view text, std::string_view name);

}  // namespace skald::jinja
