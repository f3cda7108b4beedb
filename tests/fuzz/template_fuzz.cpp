// The input is a chat template, which is parsed and rendered; or a line of JSON and then a
// template, which gets that JSON as its messages.
#include <string_view>

#include "engine/base/error.h"
#include "tests/fuzz/driver.h"
#include "tokenizer/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace skald;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  jinja::RenderOptions options;
  options.limits = {200'000, size_t{1} << 20, size_t{16} << 20, 600};
  options.now.emplace();
  options.now->tm_mday = 1;
  try {
    jinja::Value messages;
    const size_t line = text.find('\n');
    if (line != std::string_view::npos && text.starts_with('[')) {
      messages = jinja::from_json(text.substr(0, line), "messages");
      text.remove_prefix(line + 1);
    } else {
      messages = jinja::from_json(
          R"([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": null,
               "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]}])",
          "messages");
    }
    jinja::Dict variables;
    variables.set("messages", messages);
    variables.set("tools", messages);
    variables.set("bos_token", jinja::Value::text("<s>"));
    variables.set("add_generation_prompt", true);
    jinja::Template("template", text).render(variables, options);
  } catch (const Error&) {
  }
  return 0;
}
