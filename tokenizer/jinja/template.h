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

struct JsonReading {
  Exit code = Exit::Usage;   // of the Error that refuses it
  bool round_large = false;  // a whole number beyond 64 bits becomes a float, not an Error
};

// JSON as a value: keys keep their order, whole numbers stay whole. An Error with `name`: no valid
// JSON, nested too deeply, a whole number beyond 64 bits.
Value from_json(std::string_view text, std::string_view name, const JsonReading& reading = {});

}  // namespace skald::jinja
