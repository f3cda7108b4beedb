// A rank in another process, as the group sees it: each call is a message, and waits for its
// answer.
#pragma once

#include <memory>

#include "engine/nodes/exchange.h"
#include "engine/nodes/links.h"
#include "engine/step/rank.h"

namespace skald::nodes {

// What a rank says about itself when it is ready.
struct RankFacts {
  int64_t context = 0, rows = 0, pages = 0, states = 0, logit_rows = 0;
  int64_t page_bytes = 0, state_bytes = 0, bytes_allocated = 0, cache_bytes_per_token = 0;
};
Writer to_body(const RankFacts& facts);
RankFacts read_facts(Reader body);  // throws Garbled

class RemoteRank final : public RankExecutor {
 public:
  // Waits until the rank is ready. Throws its Error if it fails.
  RemoteRank(int rank, const Model& shard, std::shared_ptr<Links> links,
             std::shared_ptr<NodeExchange> exchange);

  void check_step(Step) const override {}  // the first rank does
  int64_t run_extended(Step step, const Extension& extension) override;
  // The rank takes part in the logits; they are joined in the first rank's process. The results
  // are empty.
  std::span<const float> logits(int64_t row) override;
  std::vector<Picked> pick(std::span<const PickRequest> requests) override;
  std::vector<TokenScore> score(std::span<const int32_t> targets) override;
  void drop_logits() override;
  std::span<const float> hidden(int64_t row) override;
  void read_cache(std::span<const CacheRead> parts) override;
  void write_cache(std::span<const CacheWrite> parts) override;

  const Program& program() const override { return program_; }
  int64_t max_rows() const override { return facts_.rows; }
  int64_t context() const override { return facts_.context; }
  PagePool& pages() override { return pool_; }
  int64_t logit_rows() const override { return facts_.logit_rows; }
  bool observable() const override { return false; }
  void observe(Observer) override {}
  const MemoryPlan& plan() const override { return plan_; }
  int64_t bytes_allocated() const override { return facts_.bytes_allocated; }
  int64_t cache_bytes_per_token() const override { return facts_.cache_bytes_per_token; }
  CacheTypes cache_types() const override { return {}; }  // the first rank's counts
  std::string description() const override { return links_->name(rank_); }
  std::string page_format() const override { return ""; }  // the first rank's counts
  int64_t page_bytes() const override { return facts_.page_bytes; }
  int64_t state_bytes() const override { return facts_.state_bytes; }

 private:
  std::vector<std::byte> ask(Kind kind, const Writer& body);
  std::vector<std::byte> answer();
  Writer job() const;  // the beginning of a job's body

  const int rank_;
  std::shared_ptr<Links> links_;
  std::shared_ptr<NodeExchange> exchange_;
  RankFacts facts_;
  Program program_;
  PagePool pool_;
  MemoryPlan plan_;
};

}  // namespace skald::nodes
