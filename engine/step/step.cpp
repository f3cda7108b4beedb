#include "engine/step/step.h"

#include "engine/base/error.h"

namespace skald {

bool have_room(std::span<Sequence* const> sequences, int64_t context) {
  int64_t missing_pages = 0;
  for (const Sequence* sequence : sequences) {
    if (sequence->length() >= context) return false;
    missing_pages += sequence->missing_pages(1);
  }
  return sequences.empty() || missing_pages <= sequences.front()->pool().free_pages();
}

Extension extend(Step step) {
  Extension extension;
  extension.reserve(step.size());
  try {
    for (const SeqRows& part : step) {
      extension.push_back(part.sequence->extend(std::ssize(part.tokens)));
    }
  } catch (...) {
    for (size_t i = 0; i < extension.size(); ++i) {
      step[i].sequence->undo_extend(std::ssize(step[i].tokens), extension[i]);
    }
    throw;
  }
  return extension;
}

void take_back(Step step) {
  for (const SeqRows& rows : step) {
    rows.sequence->truncate(rows.sequence->length() - std::ssize(rows.tokens));
  }
}

StepRows::StepRows(const StepLimits& limits) : limits_(limits) {
  for (std::vector<int32_t>* list : {&tokens, &sequences, &wanted}) {
    list->reserve(static_cast<size_t>(limits.rows));
  }
  positions.reserve(static_cast<size_t>(limits.rows));
}

void StepRows::check_step(Step step) const {
  int64_t total = 0;
  for (const SeqRows& part : step) {
    check(!part.tokens.empty(), "a step's sequence has rows");
    total += static_cast<int64_t>(part.tokens.size());
    check(std::ssize(part.given) == std::ssize(part.tokens) * limits_.given_cols,
          "each row of a step is given what the program takes");
    const int64_t length = part.sequence->length() + static_cast<int64_t>(part.tokens.size());
    if (length > limits_.context) {
      fail(Exit::Failed, "the text is ", length, " tokens long, but the context holds ",
           limits_.context, "; ask for a larger one with -c");
    }
    for (int32_t token : part.tokens) {
      if (token < 0 || token >= limits_.vocab) {
        fail(Exit::Failed, "token id ", token, " is outside of the model's vocabulary of ",
             limits_.vocab, "; the tokenizer belongs to another model");
      }
    }
  }
  check(total > 0 && total <= limits_.rows, "a step has between 1 and max_rows rows");
}

void StepRows::list(Step step) {
  tokens.clear();
  positions.clear();
  sequences.clear();
  wanted.clear();
  given.clear();
  one_row_each = few_rows_each = true;
  for (size_t s = 0; s < step.size(); ++s) {
    const SeqRows& part = step[s];
    int64_t position = part.sequence->length() - static_cast<int64_t>(part.tokens.size());
    for (const int32_t& token : part.tokens) {
      if (part.want == Want::EveryRow ||
          (part.want == Want::LastRow && &token == &part.tokens.back())) {
        wanted.push_back(static_cast<int32_t>(tokens.size()));
      }
      tokens.push_back(token);
      positions.push_back(position++);
      sequences.push_back(static_cast<int32_t>(s));
    }
    given.insert(given.end(), part.given.begin(), part.given.end());
    const auto rows = std::ssize(part.tokens);
    one_row_each = one_row_each && rows == 1 && part.want != Want::Nothing;
    few_rows_each = few_rows_each && rows <= kFewRows &&
                    (part.want == Want::EveryRow || (rows == 1 && part.want == Want::LastRow));
  }
}

}  // namespace skald
