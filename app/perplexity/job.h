// Owns all that a perplexity run needs: models, text, chunks, heading. The constructor opens and
// checks everything, so that errors are reported before anything is computed.
#pragma once

#include <memory>
#include <optional>

#include "app/perplexity/base_file.h"
#include "app/perplexity/chunks.h"
#include "app/perplexity/flags.h"
#include "app/perplexity/record.h"
#include "app/perplexity/run.h"
#include "app/terminal/progress.h"

namespace skald {

class PplJob {
 public:
  PplJob(const PplFlags& flags, Progress& progress);

  const PplHeading& heading() const { return heading_; }
  const PplSettings& settings() const { return heading_.settings; }
  const ChunkRange& range() const { return range_; }
  const ChunkSource& chunks() const { return *chunks_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const Executor& executor() const { return *executors_.front(); }
  std::vector<PplDevice> devices() const;
  BaseReader* base_file() { return base_file_.get(); }
  int64_t base_row(int64_t chunk) const;  // in the base file

  // For the llama.cpp protocol: the ids from the text's start to the end of the range.
  std::vector<int32_t> ids() const;

 private:
  using Executors = std::vector<std::unique_ptr<Executor>>;

  void open_base(const PplFlags& flags);
  void open_text(const PplFlags& flags, Progress& progress);
  void check_base_file() const;
  void check_base_ids() const;
  Executors prepare(const Model& model, const PplFlags& flags) const;

  OpenedModel opened_;
  std::optional<OpenedModel> opened_base_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<BaseReader> base_file_;
  std::unique_ptr<TextFile> file_;
  std::unique_ptr<TokenStream> text_;
  std::unique_ptr<Documents> documents_;
  std::unique_ptr<ChunkSource> chunks_;
  Executors executors_, bases_;  // one per device; `bases_` is empty unless --base is a model
  PplHeading heading_;
  ChunkRange range_;
};

}  // namespace skald
