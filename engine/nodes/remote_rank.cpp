#include "engine/nodes/remote_rank.h"

#include "engine/base/printable.h"

namespace skald::nodes {

Writer to_body(const RankFacts& facts) {
  Writer body;
  for (const int64_t number :
       {facts.context, facts.rows, facts.pages, facts.states, facts.logit_rows, facts.page_bytes,
        facts.state_bytes, facts.bytes_allocated, facts.cache_bytes_per_token}) {
    body.add(number);
  }
  return body;
}

RankFacts read_facts(Reader body) {
  constexpr int64_t kMostPages = int64_t{1} << 28, kMostBytes = int64_t{1} << 50;
  RankFacts facts;
  for (int64_t* const number :
       {&facts.context, &facts.rows, &facts.pages, &facts.states, &facts.logit_rows}) {
    *number = body.take<int64_t>(0, kMostPages);
  }
  for (int64_t* const bytes : {&facts.page_bytes, &facts.state_bytes, &facts.bytes_allocated,
                               &facts.cache_bytes_per_token}) {
    *bytes = body.take<int64_t>(0, kMostBytes);
  }
  body.end();
  return facts;
}

RemoteRank::RemoteRank(int rank, const Model& shard, std::shared_ptr<Links> links,
                       std::shared_ptr<NodeExchange> exchange)
    : rank_(rank),
      links_(std::move(links)),
      exchange_(std::move(exchange)),
      facts_(read_facts(Reader(answer()))),
      program_(shard.program()),
      pool_(facts_.pages, facts_.states) {}

std::vector<std::byte> RemoteRank::ask(Kind kind, const Writer& body) {
  links_->send(rank_, kind, body);
  return answer();
}

std::vector<std::byte> RemoteRank::answer() {
  Message message = links_->receive(rank_);
  if (message.kind == Kind::Done) return std::move(message.body);
  if (message.kind != Kind::Failed) throw Garbled();
  Reader body(message.body);
  const auto code = body.take<int32_t>(1, 255);
  fail(static_cast<Exit>(code), links_->name(rank_), ": ", printable(body.take_text(), 2000));
}

Writer RemoteRank::job() const {
  Writer body;
  body.add(exchange_->epoch());
  return body;
}

int64_t RemoteRank::run_extended(Step step, const Extension& extension) {
  Writer body = job();
  body.add(static_cast<uint32_t>(step.size()));
  for (size_t i = 0; i < step.size(); ++i) {
    const SeqRows& rows = step[i];
    body.add_list(rows.sequence->pages());
    body.add(rows.sequence->length()).add(rows.sequence->state());
    body.add_list(rows.tokens).add(static_cast<uint8_t>(rows.want));
    for (const auto& copy : {extension[i].page, extension[i].state}) {
      body.add(copy ? copy->from : int32_t{-1}).add(copy ? copy->to : int32_t{-1});
    }
  }
  const std::vector<std::byte> reply = ask(Kind::Run, body);
  Reader wanted(reply);
  return wanted.take<int64_t>();
}

std::span<const float> RemoteRank::logits(int64_t row) {
  ask(Kind::Logits, job().add(row));
  return {};
}

std::vector<Picked> RemoteRank::pick(std::span<const PickRequest> requests) {
  ask(Kind::Pick, job().add(static_cast<int64_t>(requests.size())));
  return {};
}

std::vector<TokenScore> RemoteRank::score(std::span<const int32_t> targets) {
  ask(Kind::Score, job().add_list(targets));
  return {};
}

void RemoteRank::drop_logits() {
  if (!links_->gone()) links_->send(rank_, Kind::Drop, Writer());
}

std::span<const float> RemoteRank::hidden(int64_t) {
  check_failed("the first rank has the hidden numbers", std::source_location::current());
}

void RemoteRank::read_cache(std::span<const CacheRead> parts) {
  for (const CacheRead& part : parts) {
    const std::vector<std::byte> bytes =
        ask(Kind::Read, Writer().add(static_cast<uint8_t>(part.kind)).add(part.number));
    if (bytes.size() != part.bytes.size()) throw Garbled();
    std::memcpy(part.bytes.data(), bytes.data(), bytes.size());
  }
}

void RemoteRank::write_cache(std::span<const CacheWrite> parts) {
  for (const CacheWrite& part : parts) {
    ask(Kind::Write,
        Writer().add(static_cast<uint8_t>(part.kind)).add(part.number).add_list(part.bytes));
  }
}

}  // namespace skald::nodes
