// Tools and small chat templates for tests of calls. The templates write calls in the formats of
// model families, with words of their own.
#pragma once

#include <string>
#include <vector>

#include "app/tools/format.h"
#include "app/tools/tools.h"
#include "tests/catch.h"

namespace skald::test {

inline const Json& weather_tools() {
  static const Json tools = parse_json(R"([
    {"type": "function", "function": {"name": "get_weather", "description": "Weather",
     "parameters": {"type": "object", "properties": {
       "city": {"type": "string"}, "days": {"type": "integer"}, "warm": {"type": "boolean"},
       "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
       "places": {"type": "array", "items": {"type": "string"}},
       "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
       "note": {"type": ["string", "null"]}},
       "required": ["city"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "clock", "description": "Time",
     "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}}])");
  return tools;
}

// The templates' marks decide about the format; the rest is short.
struct FormatTemplate {
  const char* format;
  const char* text;
};

inline const std::vector<FormatTemplate> kFormatTemplates = {
    {"hermes",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% for c in m.tool_calls or [] %}\n<tool_call>\n{\"name\": "
     "{{ c.function.name | tojson }}, \"arguments\": {{ c.function.arguments | tojson }}}"
     "\n</tool_call>{% endfor %}{% endfor %}"},
    {"qwen-xml",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '\\n<tool_call>\\n<function=' + "
     "c.function.name + '>\\n' }}{% for k, v in c.function.arguments.items() %}{{ '<parameter=' + k"
     " + '>\\n' + (v if v is string else v | tojson) + '\\n</parameter>\\n' }}{% endfor %}"
     "{{ '</function>\\n</tool_call>' }}{% endfor %}{% endfor %}"},
    {"glm",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '\\n<tool_call>' + c.function.name "
     "+ '\\n' }}{% for k, v in c.function.arguments.items() %}{{ '<arg_key>' + k + "
     "'</arg_key>\\n<arg_value>' + (v if v is string else v | tojson) + '</arg_value>\\n' }}"
     "{% endfor %}{{ '</tool_call>' }}{% endfor %}{% endfor %}"},
    {"minimax",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% if m.tool_calls %}{{ '\\n<minimax:tool_call>\\n' }}"
     "{% for c in m.tool_calls %}{{ '<invoke name=\"' + c.function.name + '\">\\n' }}"
     "{% for k, v in c.function.arguments.items() %}{{ '<parameter name=\"' + k + '\">' + "
     "(v if v is string else v | tojson) + '</parameter>\\n' }}{% endfor %}{{ '</invoke>\\n' }}"
     "{% endfor %}{{ '</minimax:tool_call>' }}{% endif %}{% endfor %}"},
    {"deepseek-v3",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% if m.tool_calls %}{{ '<\uff5ctool\u2581calls\u2581begin\uff5c>' }}"
     "{% for c in m.tool_calls %}{{ '<\uff5ctool\u2581call\u2581begin\uff5c>function"
     "<\uff5ctool\u2581sep\uff5c>' + c.function.name + '\\n```json\\n' + "
     "c.function.arguments | tojson + '\\n```<\uff5ctool\u2581call\u2581end\uff5c>' }}"
     "{% endfor %}{{ '<\uff5ctool\u2581calls\u2581end\uff5c>' }}{% endif %}{% endfor %}"},
    {"deepseek-v3.1",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% if m.tool_calls %}{{ '<\uff5ctool\u2581calls\u2581begin\uff5c>' }}"
     "{% for c in m.tool_calls %}{{ '<\uff5ctool\u2581call\u2581begin\uff5c>' + c.function.name + "
     "'<\uff5ctool\u2581sep\uff5c>' + c.function.arguments | tojson + "
     "'<\uff5ctool\u2581call\u2581end\uff5c>' }}{% endfor %}"
     "{{ '<\uff5ctool\u2581calls\u2581end\uff5c>' }}{% endif %}{% endfor %}"},
    {"mistral",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}({{ m.role }})"
     "{{ m.content or '' }}{% if m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}"
     "{{ c.function | tojson }}{{ ', ' if not loop.last }}{% endfor %}]{% endif %}{% endfor %}"},
    {"mistral-args",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}({{ m.role }})"
     "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '[TOOL_CALLS]' + c.function.name + "
     "'[ARGS]' + c.function.arguments | tojson }}{% endfor %}{% endfor %}"},
    {"mistral-id",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}({{ m.role }})"
     "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '[TOOL_CALLS]' + c.function.name + "
     "'[CALL_ID]' + c.id + '[ARGS]' + c.function.arguments | tojson }}{% endfor %}{% endfor %}"},
    {"granite",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% if m.tool_calls %}<|tool_call|>[{% for c in m.tool_calls %}"
     "{{ c.function | tojson }}{{ ', ' if not loop.last }}{% endfor %}]{% endif %}{% endfor %}"},
    {"phi-4-mini",
     "{% for m in messages %}{% if m.role == 'system' and m.tools %}{{ m.content + '<|tool|>' + "
     "m.tools + '<|/tool|>' }}{% else %}[{{ m.role }}]{{ m.content or '' }}{% endif %}{% if "
     "m.tool_calls %}<|tool_call|>[{% for c in m.tool_calls %}{{ c.function | tojson }}"
     "{{ ', ' if not loop.last }}{% endfor %}]<|/tool_call|>{% endif %}{% endfor %}"},
    {"llama",
     "{% if tools %}{\"name\": function name, \"parameters\": arguments}{% endif %}"
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
     "{% if m.tool_calls %}{% set c = m.tool_calls[0].function %}{\"name\": "
     "{{ c.name | tojson }}, \"parameters\": {{ c.arguments | tojson }}}"
     "{% else %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"},
    {"gemma",
     "{% macro value(v) %}{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}"
     "{{ '{' }}{% for k, x in v.items() %}{{ k }}:{{ value(x) }}{{ ',' if not loop.last }}"
     "{% endfor %}{{ '}' }}{% elif v is sequence %}[{% for x in v %}{{ value(x) }}"
     "{{ ',' if not loop.last }}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}{% endmacro %}"
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<|tool_call>call:"
     "{{ c.function.name }}{{ value(c.function.arguments) }}<tool_call|>{% endfor %}"
     "{% endfor %}"},
    {"seed",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '\\n<seed:tool_call>\\n<function=' "
     "+ c.function.name + '>\\n' }}{% for k, v in c.function.arguments.items() %}"
     "{{ '<parameter=' + k + '>' + (v if v is string else v | tojson) + '</parameter>\\n' }}"
     "{% endfor %}{{ '</function>\\n</seed:tool_call>' }}{% endfor %}{% endfor %}"},
    {"command",
     "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]"
     "{{ m.content or '' }}{% if m.tool_calls %}<|START_ACTION|>[{% for c in m.tool_calls %}"
     "{\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": {{ c.function.name | tojson }}, "
     "\"parameters\": {{ c.function.arguments | tojson }}}{{ ', ' if not loop.last }}{% endfor %}]"
     "<|END_ACTION|>{% endif %}{% endfor %}"},
    {"functools",
     "{% if tools %}functools[...]{% endif %}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
     "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% if m.tool_calls %}"
     "{{ 'functools[' }}{% for c in m.tool_calls %}{{ c.function | tojson }}"
     "{{ ', ' if not loop.last }}{% endfor %}]{% endif %}{% endfor %}"},
};

inline const ToolFormat& format_named(const std::string& name) {
  for (const FormatTemplate& one : kFormatTemplates) {
    if (one.format == name) return *tool_format(one.text);
  }
  FAIL("no template of this format: " << name);
  return *tool_format("");
}

}  // namespace skald::test
