// From a line to token ids and checked settings: the host's work before the model. Any number of
// threads may prepare lines.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/batch/constraints.h"
#include "app/batch/job.h"
#include "app/batch/tools.h"
#include "app/embed/choice.h"
#include "app/jobs/fields.h"
#include "tokenizer/chat/chat_template.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

enum class OnOverflow { Error, TruncateLeft, Skip };

struct BatchPrepareOptions {
  const Tokenizer* tokenizer = nullptr;         // none: prompts are ids
  const ChatTemplate* chat_template = nullptr;  // none: chat_problem says why
  std::string chat_problem;
  jinja::Dict variables = {};     // of the template, where a line does not set them
  std::vector<int32_t> stop_ids;  // the model's stop tokens
  // The names that a line's field model may have, each with the number of an adapter. Empty: any
  // name, and all lines have the first adapter.
  std::map<std::string, int> adapters = {};
  int64_t vocab = 0, context = 0;

  // The settings that a line does not set.
  SamplingParams params;
  int64_t max_tokens = 0;  // -1: until the context is full
  bool ignore_eos = false;

  // How texts become vectors; none: embed_problem says why.
  std::optional<EmbedChoice> embed;
  std::string embed_problem;
  int64_t dim = 0;        // of a vector
  bool headless = false;  // the model gives vectors alone

  bool special = false;            // control tokens are read in prompts
  bool separate_thinking = false;  // the answer to messages has no thinking between tags
  OnOverflow on_overflow = OnOverflow::Error;
};

class BatchPreparer {
 public:
  explicit BatchPreparer(BatchPrepareOptions options);

  // The job has prompts to compute, or a problem, or is skipped.
  std::unique_ptr<BatchJob> prepare(JobLine line);

  const UnknownFields& unknown_fields() const { return unknown_fields_; }  // in all lines so far

 private:
  void read(BatchJob& job);
  void check(BatchRequest& request) const;
  void add_prompt(BatchJob& job, const LineText& given);
  int adapter_of(const BatchRequest& request) const;
  void add_chat(BatchJob& job);
  void add_embed(BatchJob& job);
  BatchPrompt& add_ids(BatchJob& job, std::vector<int32_t> ids, TextStream::Begin begin);
  std::unique_ptr<TokenFilter> filter(const BatchRequest& request, TextStream::Begin begin,
                                      std::span<const int32_t> prompt);
  void fit(std::vector<int32_t>& ids, int64_t max_tokens, BatchPrompt& prompt) const;
  SampleTextOptions text_options(const BatchPrompt& prompt, TextStream::Begin begin) const;

  const BatchPrepareOptions options_;
  std::optional<BatchConstraints> constraints_;  // only if there is a tokenizer
  std::optional<BatchTools> tools_;              // only if there is a template too
  UnknownFields unknown_fields_;
};

}  // namespace skald
