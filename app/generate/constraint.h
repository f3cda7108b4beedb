// Output that is written by a grammar: from rules to a mask for the sampler
// (SampleContext::allowed), token by token. What it needs of a model is made once
// (constraint_vocabulary), what it needs of a grammar once for each (constraint_masks); a
// Constraint is one text's place in it:
//
//   Constraint constraint(masks, tokenizer, begin);
//   while (!constraint.finished()) {
//     picked = session.next(&constraint);
//     constraint.accept(picked.token);  // a stop token ends the loop before
//   }
//
// One thread at a time for one Constraint; those of the same Masks may be on different threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/grammar/matcher.h"
#include "engine/schedule/generation.h"
#include "tokenizer/text/text_stream.h"

namespace skald {

// The tokens that may write text; control tokens may not. stop_ids end a text.
std::shared_ptr<const grammar::Vocabulary> constraint_vocabulary(const Tokenizer& tokenizer,
                                                                 std::span<const int32_t> stop_ids);

std::shared_ptr<grammar::Masks> constraint_masks(
    const grammar::Rules& rules, std::shared_ptr<const grammar::Vocabulary> vocabulary);

class Constraint : public TokenFilter {
 public:
  // Borrows the tokenizer. `begin`: the TextStream's, since one that starts a text drops a space,
  // which the grammar then does not see.
  Constraint(std::shared_ptr<grammar::Masks> masks, const Tokenizer& tokenizer,
             TextStream::Begin begin);

  // At least one token is allowed; where the vocabulary cannot write what must come:
  // Error(Exit::Failed). Valid until the next call.
  std::span<const uint64_t> allowed() override;

  // A token that allowed() holds. Stop tokens change nothing.
  void accept(int32_t token) override;

  bool may_end() const { return matcher_.may_end(); }
  bool finished() const override { return matcher_.finished(); }

 private:
  std::span<const uint64_t> first_mask();

  std::shared_ptr<grammar::Masks> masks_;
  const Tokenizer* tokenizer_;
  grammar::Matcher matcher_;
  bool drops_space_;                  // of the next token
  std::vector<uint64_t> first_mask_;  // where it does
};

}  // namespace skald
