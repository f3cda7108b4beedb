// A small model for tests of skald chat, with a chat template and answers that a test chooses.
#pragma once

#include <string>
#include <vector>

#include "tests/process.h"
#include "tests/small_models.h"

namespace skald::test {

// History and settings of the program lie in `folder`.
inline Invocation in_folder(const TempFolder& folder, const std::vector<std::string>& arguments,
                            const std::string& input) {
  Invocation invocation{arguments, input};
  invocation.environment = {{"HOME", folder.path().string()},
                            {"XDG_STATE_HOME", ""},
                            {"NO_COLOR", ""},
                            {"TERM", "xterm"},
                            {"LC_ALL", "C.UTF-8"}};
  return invocation;
}

// Generates `piece` for ever. Each byte of a text is a token.
struct ChatModel : TempFolder {
  explicit ChatModel(const std::string& piece = "x", uint32_t context = 512) {
    FlatModel flat;
    flat.context = context;
    flat.extra_piece = piece;
    flat.chat_template =
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}"
        "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
    model = write("flat.gguf", flat_gguf(flat)).string();
  }

  // Arguments for a chat with answers of `count` tokens.
  Invocation chat(int count, std::vector<std::string> more = {}, const std::string& input = "") {
    std::vector<std::string> arguments{
        "chat", model, "--temp", "0", "-l", "259+5", "-n", std::to_string(count), "-t", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return in_folder(*this, arguments, input);
  }

  std::string model;
};

inline Invocation with(Invocation invocation, const std::string& name, const std::string& value) {
  invocation.environment.emplace_back(name, value);
  return invocation;
}

}  // namespace skald::test
