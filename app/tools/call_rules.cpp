#include "app/tools/call_rules.h"

#include <utility>

#include "app/tools/argument_rules.h"
#include "engine/base/error.h"
#include "tokenizer/chat/channels.h"

namespace skald {
namespace {

using grammar::kUnbounded;
using grammar::NodeId;
using grammar::Rules;

class CallRules {
 public:
  explicit CallRules(const CallRulesOptions& options)
      : options_(options),
        format_(*options.syntax.format()),
        required_(options.tools.choice == Tools::Choice::Required),
        arguments_(result_.rules, options.syntax, result_.notes) {}

  SchemaRules make() {
    Rules& rules = result_.rules;
    const bool channels = format_.arguments == ToolFormat::Arguments::Channels;
    const NodeId root = channels ? messages() : rules.sequence({thinking(), answer()});
    rules.root = rules.add("calls of tools");
    rules.define(rules.root, root);
    return std::move(result_);
  }

 private:
  NodeId literal(std::string_view text) { return options_.syntax.literal(result_.rules, text); }

  // Any text in which `mark` does not stand.
  NodeId text_up_to(std::string_view mark) {
    Rules& rules = result_.rules;
    if (mark.empty() || options_.syntax.is_control(mark)) {
      return rules.repeat(rules.one_of(grammar::any_char()), 0, kUnbounded);
    }
    return text_without(rules, std::string(mark));
  }

  NodeId call(const Tool& tool) {
    Rules& rules = result_.rules;
    std::vector<NodeId> parts{literal(format_.call_begin), rules.text(tool.name)};
    if (format_.writes_id) {
      parts.push_back(literal(kMistralId));
      parts.push_back(rules.repeat(rules.one_of({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}), 9, 9));
    }
    parts.push_back(literal(format_.name_end));
    parts.push_back(arguments_.of(tool, required_ || tool.strict));
    parts.push_back(literal(format_.call_end));
    return rules.sequence(parts);
  }

  NodeId calls() {
    Rules& rules = result_.rules;
    std::vector<NodeId> each;
    for (const Tool& tool : options_.tools.all) each.push_back(call(tool));
    const grammar::RuleId one = rules.add("a call");
    rules.define(one, rules.choice(each));
    const bool single = format_.one || !options_.tools.parallel;
    const NodeId more =
        single ? rules.empty()
               : rules.repeat(rules.sequence({literal(format_.between), rules.call(one)}), 0,
                              kUnbounded);
    return rules.sequence(
        {literal(format_.block_begin), rules.call(one), more, literal(format_.block_end)});
  }

  // The text that may stand in place of calls. Where calls need no mark, it is no object.
  NodeId other_text() {
    Rules& rules = result_.rules;
    if (options_.answer) return rules.include(*options_.answer);
    if (!format_.bare) return text_up_to(format_.begin);
    const NodeId first = rules.one_of(
        grammar::complement({{'{', '{'}, {' ', ' '}, {'\t', '\t'}, {'\n', '\n'}, {'\r', '\r'}}));
    return rules.maybe(rules.sequence({first, text_up_to(format_.begin)}));
  }

  NodeId answer() {
    Rules& rules = result_.rules;
    if (required_) return calls();
    const NodeId called = calls();
    if (options_.answer || format_.bare) return rules.choice({other_text(), called});
    return rules.sequence({other_text(), rules.maybe(called)});
  }

  // If the prompt has begun the thinking, the thinking must end; otherwise it may come.
  NodeId thinking() {
    Rules& rules = result_.rules;
    std::optional<ThinkingTags> tags = open_tags(options_.prompt_end);
    const bool open = tags.has_value();
    if (!open) {
      tags = options_.syntax.thinking();
      if (!tags || options_.prompt_end.find(tags->end) != std::string_view::npos) {
        return rules.empty();
      }
    }
    const NodeId space = rules.repeat(rules.one_of({{' ', ' '}, {'\n', '\n'}}), 0, 2);
    const NodeId rest = rules.sequence({text_up_to(tags->end), literal(tags->end), space});
    return open ? rest : rules.maybe(rules.sequence({literal(tags->begin), rest}));
  }

  // gpt-oss: thinking and preambles, then a call or the final message.
  NodeId messages() {
    Rules& rules = result_.rules;
    const auto text = [&] { return text_up_to(kMessageEnd); };
    const auto header = [&](std::string_view channel) {
      return rules.sequence({literal(kChannel), rules.text(channel), literal(kMessageText)});
    };
    std::vector<NodeId> before{header("analysis")};
    if (!required_) before.push_back(header("commentary"));
    const NodeId message = rules.sequence({rules.choice(before), text(), literal(kMessageEnd),
                                           literal(kMessageStart), rules.text("assistant")});
    std::vector<NodeId> last{calls()};
    if (!required_) {
      const NodeId answer = options_.answer ? rules.include(*options_.answer) : text();
      last.push_back(rules.sequence({header("final"), answer}));
    }
    return rules.sequence({rules.repeat(message, 0, kUnbounded), rules.choice(last)});
  }

  const CallRulesOptions& options_;
  const ToolFormat& format_;
  const bool required_;
  SchemaRules result_;
  ArgumentRules arguments_;
};

}  // namespace

SchemaRules call_rules(const CallRulesOptions& options) { return CallRules(options).make(); }

}  // namespace skald
