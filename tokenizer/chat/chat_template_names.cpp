// Built-in chat templates for models whose files have none. Each writes the format that the models
// of its family were trained on. If a format has no system message, the system message goes before
// the first user message.
#include <algorithm>
#include <iterator>

#include "tokenizer/chat/chat_template.h"

namespace skald {
namespace {

struct Named {
  std::string_view name, text;
};

// For families without a system role: separates the system message (`system`) from the rest
// (`turns`).
#define SKALD_SYSTEM_FIRST                          \
  "{% if messages[0].role == 'system' %}"           \
  "{% set system = messages[0].content | trim %}"   \
  "{% set turns = messages[1:] %}"                  \
  "{% else %}"                                      \
  "{% set system = '' %}{% set turns = messages %}" \
  "{% endif %}"

constexpr Named kTemplates[] = {
    {"alpaca", "{{ bos_token }}" SKALD_SYSTEM_FIRST
               "{{ system or 'Below is an instruction that describes a task. Write a response that "
               "appropriately completes the request.' }}{{ '\\n\\n' }}"
               "{% for m in turns %}"
               "{% if m.role == 'user' %}{{ '### Instruction:\\n' + m.content + '\\n\\n' }}"
               "{% else %}{{ '### Response:\\n' + m.content + eos_token + '\\n\\n' }}{% endif %}"
               "{% endfor %}"
               "{% if add_generation_prompt %}{{ '### Response:\\n' }}{% endif %}"},
    {"chatml",
     "{% for m in messages %}"
     "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"command-r",
     "{{ bos_token }}"
     "{% for m in messages %}"
     "{% set role = {'system': 'SYSTEM', 'user': 'USER'}.get(m.role, 'CHATBOT') %}"
     "{{ '<|START_OF_TURN_TOKEN|><|' + role + '_TOKEN|>' + m.content | trim + "
     "'<|END_OF_TURN_TOKEN|>' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"},
    {"deepseek",
     "{{ bos_token }}"
     "{% for m in messages %}"
     "{% if m.role == 'user' %}{{ 'User: ' + m.content + '\\n\\n' }}"
     "{% elif m.role == 'assistant' %}{{ 'Assistant: ' + m.content + eos_token }}"
     "{% else %}{{ m.content + '\\n\\n' }}{% endif %}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"},
    {"deepseek3",
     "{{ bos_token }}"
     "{% for m in messages %}"
     "{% if m.role == 'user' %}{{ '<\uff5cUser\uff5c>' + m.content }}"
     "{% elif m.role == 'assistant' %}{{ '<\uff5cAssistant\uff5c>' + m.content + eos_token }}"
     "{% else %}{{ m.content }}{% endif %}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<\uff5cAssistant\uff5c>' }}{% endif %}"},
    {"gemma", "{{ bos_token }}" SKALD_SYSTEM_FIRST "{% for m in turns %}"
              "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
              "{{ system + '\\n\\n' if loop.first and system else '' }}"
              "{{ m.content | trim + '<end_of_turn>\\n' }}"
              "{% endfor %}"
              "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"granite",
     "{% for m in messages %}"
     "{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\\n' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}"
     "{{ '<|start_of_role|>assistant<|end_of_role|>' }}"
     "{% endif %}"},
    {"llama2", SKALD_SYSTEM_FIRST
     "{% for m in turns %}"
     "{% if m.role == 'user' %}"
     "{{ bos_token + '[INST] ' }}"
     "{{ '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' if loop.first and system else '' }}"
     "{{ m.content | trim + ' [/INST]' }}"
     "{% else %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endif %}"
     "{% endfor %}"},
    {"llama3",
     "{{ bos_token }}"
     "{% for m in messages %}"
     "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
     "{{ m.content | trim + '<|eot_id|>' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
     "{% endif %}"},
    {"mistral", "{{ bos_token }}" SKALD_SYSTEM_FIRST "{% for m in turns %}"
                "{% if m.role == 'user' %}"
                "{{ '[INST] ' + (system + '\\n\\n' if loop.first and system else '') }}"
                "{{ m.content + ' [/INST]' }}"
                "{% else %}{{ ' ' + m.content | trim + eos_token }}{% endif %}"
                "{% endfor %}"},
    {"openchat",
     "{{ bos_token }}"
     "{% for m in messages %}"
     "{% if m.role == 'system' %}{{ m.content + '<|end_of_turn|>' }}"
     "{% else %}{{ 'GPT4 Correct ' + m.role | title + ': ' + m.content + '<|end_of_turn|>' }}"
     "{% endif %}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}"},
    {"phi3",
     "{% for m in messages %}"
     "{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
    {"phi4",
     "{% for m in messages %}"
     "{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"},
    {"vicuna", "{{ bos_token }}" SKALD_SYSTEM_FIRST "{{ system + '\\n\\n' if system else '' }}"
               "{% for m in turns %}"
               "{% if m.role == 'user' %}{{ 'USER: ' + m.content | trim + '\\n' }}"
               "{% else %}{{ 'ASSISTANT: ' + m.content | trim + eos_token + '\\n' }}{% endif %}"
               "{% endfor %}"
               "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"},
    {"zephyr",
     "{% for m in messages %}"
     "{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
};

#undef SKALD_SYSTEM_FIRST

}  // namespace

std::vector<std::string_view> builtin_template_names() {
  std::vector<std::string_view> names;
  for (const Named& one : kTemplates) names.push_back(one.name);
  return names;
}

std::optional<NamedTemplate> builtin_template(std::string_view name) {
  const auto found = std::find_if(std::begin(kTemplates), std::end(kTemplates),
                                  [&](const Named& one) { return one.name == name; });
  if (found == std::end(kTemplates)) return std::nullopt;
  return NamedTemplate{"default", concat(kBuiltInSource, name), std::string(found->text)};
}

}  // namespace skald
