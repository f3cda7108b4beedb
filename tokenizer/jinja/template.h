// A chat template: parsed once, rendered any number of times by any number of threads. It behaves
// as Jinja2 with the settings of transformers (trim_blocks, lstrip_blocks, its tojson,
// raise_exception and strftime_now, break and continue, generation blocks), or throws an Error that
// says why not. A template runs within limits, can access only its variables, and cannot change
// them.
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
  std::optional<std::tm> now = {};  // result of strftime_now(); unset: the clock
};

class Template {
 public:
  // `name` names the source in messages. Throws Error(Exit::Model) with the line.
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
  Exit code = Exit::Usage;   // code of the Error
  bool round_large = false;  // true: an integer beyond 64 bits becomes a float; false: an Error
};

// Converts JSON to a value; keys keep their order and integers stay integers. Throws an Error that
// begins with `name` for invalid JSON, too deep nesting, or an integer beyond 64 bits.
Value from_json(std::string_view text, std::string_view name, const JsonReading& reading = {});

}  // namespace skald::jinja
