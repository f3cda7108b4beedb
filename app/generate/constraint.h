// Output that follows a grammar: for each token, the rules become a mask for the sampler
// (SampleContext::allowed). A program makes one vocabulary for a model (constraint_vocabulary()),
// one set of masks for a grammar (constraint_masks()), and one Constraint for a text:
//
//   Constraint constraint(masks, tokenizer, begin);
//   while (!constraint.finished()) {
//     picked = session.next(&constraint);
//     constraint.accept(picked.token);  // a stop token ends the loop before
//   }
//
// Where the grammar leaves one text alone, such as the rest of a name, that text's usual tokens are
// forced: they are appended without asking the model (TokenFilter::forced()).
//
// One thread at a time uses a Constraint. Constraints of the same Masks may be on different
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/matcher.h"
#include "engine/grammar/rules.h"
#include "engine/schedule/generation.h"
#include "tokenizer/text/text_stream.h"

namespace skald {

// The tokens that a grammar may use: all but control tokens, and those that the grammar refers to
// (`named`, of its Rules). stop_ids end a text. Throws Error(Exit::Usage) where the model has no
// such token.
std::shared_ptr<const grammar::Vocabulary> constraint_vocabulary(
    const Tokenizer& tokenizer, std::span<const int32_t> stop_ids,
    std::span<const grammar::TokenReference> named = {});

std::shared_ptr<grammar::Masks> constraint_masks(
    const grammar::Rules& rules, std::shared_ptr<const grammar::Vocabulary> vocabulary);

class Constraint : public TokenFilter {
 public:
  // Borrows the tokenizer. `begin` is that of the TextStream: at the start of a text the stream
  // drops a space, which the grammar must not see. `forces`: tokens may be forced; not where a bias
  // may ban them.
  Constraint(std::shared_ptr<grammar::Masks> masks, const Tokenizer& tokenizer,
             TextStream::Begin begin, bool forces = true);

  // Holds at least one token, and is valid until the next call. Throws Error(Exit::Failed) where no
  // token of the vocabulary can write what the grammar asks for.
  std::span<const uint64_t> allowed() override;

  // The token must be one that allowed() holds. Stop tokens change nothing.
  void accept(int32_t token) override;

  bool may_end() const { return matcher_.may_end(); }
  bool finished() const override { return matcher_.finished(); }
  std::span<const int32_t> forced() override;
  std::unique_ptr<TokenFilter> copy() const override;

 private:
  std::span<const uint64_t> first_mask();
  void find_forced();
  std::vector<int32_t> usual_tokens(const std::string& text) const;
  size_t certain_tokens(std::span<const int32_t> ids) const;

  std::shared_ptr<grammar::Masks> masks_;
  const Tokenizer* tokenizer_;
  grammar::Matcher matcher_;
  bool forces_;
  bool drops_space_;                  // the stream drops the next token's space
  std::vector<uint64_t> first_mask_;  // the mask for such a token
  std::string before_;                // the last bytes of the text
  std::vector<int32_t> forced_;
  size_t forced_done_ = 0;             // tokens of forced_ that were accepted
  std::vector<uint64_t> forced_mask_;  // the mask for the next of them
};

// The constraint of an answer to `prompt`. In an answer with channels (channel_reader.h), only the
// final message follows the grammar: thinking and tool calls are free.
std::unique_ptr<TokenFilter> answer_constraint(std::shared_ptr<grammar::Masks> masks,
                                               const Tokenizer& tokenizer, TextStream::Begin begin,
                                               std::span<const int32_t> prompt, bool forces);

}  // namespace skald
