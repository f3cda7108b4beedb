#include "engine/nodes/group.h"

#include <algorithm>

#include "engine/base/printable.h"
#include "engine/nodes/remote_rank.h"
#include "engine/nodes/serve.h"
#include "engine/quant/cache_row.h"
#include "engine/step/group.h"

namespace skald::nodes {
namespace {

constexpr int32_t kBackendsChoice = -1;  // of a type of the cache

void add_type(Writer& body, const std::optional<CacheType>& type) {
  body.add(type ? static_cast<int32_t>(*type) : kBackendsChoice);
}
std::optional<CacheType> take_type(Reader& body) {
  const auto types = static_cast<int32_t>(all_cache_types().size());
  const auto type = body.take<int32_t>(kBackendsChoice, types - 1);
  return type == kBackendsChoice ? std::nullopt : std::optional(static_cast<CacheType>(type));
}

// The options that all ranks share. The others say where a rank's weights lie, and how fast it is.
Writer shared_options(const RunOptions& options) {
  Writer body;
  body.add(static_cast<uint8_t>(options.exact)).add(static_cast<uint8_t>(options.reproducible));
  add_type(body, options.cache_types.keys);
  add_type(body, options.cache_types.values);
  body.add(options.context).add(options.tokens).add(int64_t{options.sequences});
  body.add(int64_t{options.checkpoints}).add(options.cache_tokens).add(options.rows);
  return std::move(body.add(static_cast<uint8_t>(options.scores)));
}

RunOptions with_shared(RunOptions options, Reader body) {
  constexpr int64_t kMost = int64_t{1} << 31;
  options.exact = body.take<uint8_t>(0, 1) == 1;
  options.reproducible = body.take<uint8_t>(0, 1) == 1;
  options.cache_types.keys = take_type(body);
  options.cache_types.values = take_type(body);
  options.context = body.take<int64_t>(0, kMost);
  options.tokens = body.take<int64_t>(0, kMost);
  options.sequences = static_cast<int>(body.take<int64_t>(1, 1 << 20));
  options.checkpoints = static_cast<int>(body.take<int64_t>(0, 1 << 24));
  options.cache_tokens = body.take<int64_t>(0, int64_t{1} << 40);
  options.rows = body.take<int64_t>(1, 1 << 24);
  options.scores = body.take<uint8_t>(0, 1) == 1;
  body.end();
  return options;
}

// Every rank says what it has memory for, and all take the least.
RunOptions agree(Links& links, RunOptions options) {
  for (int rank = 1; rank < links.ranks(); ++rank) {
    links.send(rank, Kind::Start, shared_options(options));
  }
  for (int rank = 1; rank < links.ranks(); ++rank) {
    const Message reply = links.receive(rank);
    Reader body(reply.body);
    if (reply.kind == Kind::Failed) {
      const auto code = body.take<int32_t>(1, 255);
      fail(static_cast<Exit>(code), links.name(rank), ": ", printable(body.take_text(), 2000));
    }
    if (reply.kind != Kind::Done) throw Garbled();
    options.context = std::min(options.context, body.take<int64_t>(1, int64_t{1} << 31));
    body.end();
  }
  for (int rank = 1; rank < links.ranks(); ++rank) {
    links.send(rank, Kind::Go, Writer().add(options.context));
  }
  return options;
}

}  // namespace

std::unique_ptr<Executor> lead_group(const Party& party, const Model& model,
                                     const RunOptions& asked, const RankMaker& maker) {
  Model own = model;
  own.shard = {0, party.of};
  const RunOptions planned = maker.plan(own, asked);
  const auto links = std::make_shared<Links>(party);
  const auto exchange = std::make_shared<NodeExchange>(links);
  const RunOptions options = agree(*links, planned);
  return make_group(model, party.of, exchange,
                    [&](const Model& shard) -> std::unique_ptr<RankExecutor> {
                      if (shard.shard.rank == 0) return maker.make(shard, options, exchange);
                      return std::make_unique<RemoteRank>(shard.shard.rank, shard, links, exchange);
                    });
}

void serve_rank(const Party& party, const Model& model, const RunOptions& own_options,
                const RankMaker& maker) {
  Model shard = model;
  shard.shard = {party.rank, party.of};
  const auto links = std::make_shared<Links>(party);
  const auto exchange = std::make_shared<NodeExchange>(links);
  const auto expect = [&](Kind kind) {
    Message message = links->receive(0);
    if (message.kind == Kind::End) {
      fail(Exit::Failed, "rank ", party.rank, " ends with the group, which has not begun");
    }
    if (message.kind != kind) throw Garbled();
    return message;
  };
  std::unique_ptr<RankExecutor> executor;
  try {
    RunOptions options = with_shared(own_options, Reader(expect(Kind::Start).body));
    options = maker.plan(shard, options);
    links->answer(Kind::Done, Writer().add(options.context));
    const Message go = expect(Kind::Go);
    Reader body(go.body);
    options.context = body.take<int64_t>(1, options.context);
    body.end();
    executor = maker.make(shard, options, exchange);
  } catch (const Garbled&) {
    throw;
  } catch (const Error& error) {
    say_failed(*links, error);
    throw;
  }
  RankFacts facts;
  facts.context = executor->context();
  facts.rows = executor->max_rows();
  facts.pages = executor->pages().size();
  facts.states = executor->pages().states().size();
  facts.logit_rows = executor->logit_rows();
  facts.page_bytes = executor->page_bytes();
  facts.state_bytes = executor->state_bytes();
  facts.bytes_allocated = executor->bytes_allocated();
  facts.cache_bytes_per_token = executor->cache_bytes_per_token();
  links->answer(Kind::Done, to_body(facts));
  serve(*links, *exchange, *executor);
}

}  // namespace skald::nodes
