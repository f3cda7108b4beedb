// The grammar of an answer that calls tools, in the format of a model: the format's marks, and
// between them the arguments, which follow their schemas (app/schema).
#pragma once

#include <string_view>

#include "app/schema/json_schema.h"
#include "app/tools/syntax.h"
#include "app/tools/tools.h"

namespace skald {

struct CallRulesOptions {
  const ToolSyntax& syntax;
  const Tools& tools;  // Tools::constrained()
  // Rules of the answer that may stand in place of calls, where tools.choice is Auto; nullptr: any
  // text.
  const grammar::Rules* answer = nullptr;
  std::string_view prompt_end;  // the text that the answer continues
};

// A call must come where tools.choice is Required; else it may come, after a text. Before that, a
// model may think between its tags. Arguments follow their schema where a call must come and where
// the function is strict. Throws Error(Exit::Usage) for a schema that is not supported.
SchemaRules call_rules(const CallRulesOptions& options);

}  // namespace skald
