#include "tokenizer/jinja/template.h"

#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/parser.h"

namespace skald::jinja {

Template::Template(std::string name, std::string_view text) : name_(std::move(name)) {
  tree_ = std::make_unique<const Tree>(parse(text, Source{name_}));
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const Dict& variables, const RenderOptions& options) const {
  Context context(name_, options.limits, options.now);
  return Interpreter(*tree_, variables, context).run();
}

}  // namespace skald::jinja
