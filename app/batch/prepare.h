// From what a line asks for to token ids and checked settings: the part of a batch's work on the
// host that comes before the model. Any number of threads may prepare jobs of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <mutex>

#include "app/batch/constraints.h"
#include "app/batch/job.h"
#include "tokenizer/chat/chat_template.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

enum class OnOverflow { Error, TruncateLeft, Skip };

struct BatchPrepareOptions {
  const Tokenizer* tokenizer = nullptr;         // none: prompts are ids
  const ChatTemplate* chat_template = nullptr;  // none: why is in chat_problem
  std::string chat_problem;
  std::vector<int32_t> stop_ids;  // of the model
  int64_t vocab = 0, context = 0;

  // Where a line says nothing.
  SamplingParams params;
  int64_t max_tokens = 0;  // -1: to the end
  bool ignore_eos = false;

  bool special = false;  // control tokens are read in prompts
  OnOverflow on_overflow = OnOverflow::Error;
};

class BatchPreparer {
 public:
  explicit BatchPreparer(BatchPrepareOptions options);

  // Leaves a job with prompts to compute, or with a problem, or skipped.
  void prepare(BatchJob& job);

  std::set<std::string> unknown_fields() const;  // of all lines so far, which were left aside

 private:
  void read(BatchJob& job);
  void check(BatchRequest& request) const;
  void add_prompt(BatchJob& job, const BatchPromptText& given);
  void add_chat(BatchJob& job);
  BatchPrompt& add_ids(BatchJob& job, std::vector<int32_t> ids, TextStream::Begin begin);
  void fit(std::vector<int32_t>& ids, int64_t max_tokens, BatchPrompt& prompt) const;
  SampleTextOptions text_options(const BatchJob& job, TextStream::Begin begin) const;

  const BatchPrepareOptions options_;
  std::optional<BatchConstraints> constraints_;  // with a tokenizer
  mutable std::mutex mutex_;
  std::set<std::string> unknown_fields_;
};

}  // namespace skald
