#include "engine/nodes/serve.h"

#include <algorithm>
#include <new>

#include "engine/base/printable.h"

namespace skald::nodes {
namespace {

// A step as it came, checked against what the executor has.
class ReceivedStep {
 public:
  ReceivedStep(Reader& body, RankExecutor& executor) : executor_(executor) {
    const auto count = body.take<uint32_t>();
    if (static_cast<int64_t>(count) > executor.max_rows()) throw Garbled();
    sequences_.reserve(count);
    tokens_.reserve(count);
    for (uint32_t i = 0; i < count; ++i) take(body);
    body.end();
    for (size_t i = 0; i < count; ++i) {
      rows_.push_back({&sequences_[i], tokens_[i], wants_[i]});
    }
    if (rows_count_ == 0 || rows_count_ > executor.max_rows()) throw Garbled();
  }

  Step step() const { return rows_; }
  const Extension& extension() const { return extension_; }

 private:
  void take(Reader& body) {
    const auto pages = static_cast<int32_t>(executor_.pages().size());
    const auto states = static_cast<int32_t>(executor_.pages().states().size());
    Sequence::Elsewhere place;
    place.pages = body.take_list<int32_t>();
    place.length = body.take<int64_t>(1, executor_.context());
    place.state = body.take<int32_t>(states > 0 ? 0 : -1, states - 1);
    const bool known = std::all_of(place.pages.begin(), place.pages.end(),
                                   [&](int32_t page) { return page >= 0 && page < pages; });
    if (!known || std::ssize(place.pages) != pages_for(place.length)) throw Garbled();
    std::vector<int32_t> tokens = body.take_list<int32_t>();
    const int64_t vocab = executor_.program().tokens();
    const bool tokens_known = std::all_of(
        tokens.begin(), tokens.end(), [&](int32_t token) { return token >= 0 && token < vocab; });
    if (!tokens_known || tokens.empty() || std::ssize(tokens) > place.length) throw Garbled();
    rows_count_ += std::ssize(tokens);
    wants_.push_back(
        static_cast<Want>(body.take<uint8_t>(0, static_cast<uint8_t>(Want::EveryRow))));
    Sequence::Copies copies;
    copies.page = take_copy(body, pages);
    copies.state = take_copy(body, states);
    extension_.push_back(copies);
    sequences_.emplace_back(std::move(place));
    tokens_.push_back(std::move(tokens));
  }

  static std::optional<Sequence::Copy> take_copy(Reader& body, int32_t count) {
    const auto from = body.take<int32_t>(-1, count - 1), to = body.take<int32_t>(-1, count - 1);
    if ((from < 0) != (to < 0)) throw Garbled();
    if (from < 0) return {};
    return Sequence::Copy{from, to};
  }

  RankExecutor& executor_;
  std::vector<Sequence> sequences_;
  std::vector<std::vector<int32_t>> tokens_;
  std::vector<Want> wants_;
  std::vector<SeqRows> rows_;
  Extension extension_;
  int64_t rows_count_ = 0;
};

class Server {
 public:
  Server(NodeExchange& exchange, RankExecutor& executor)
      : exchange_(exchange), executor_(executor) {}

  Writer answer(const Message& message) {
    Reader body(message.body);
    switch (message.kind) {
      case Kind::Run:
        begin(body);
        return run(body);
      case Kind::Logits: {
        begin(body);
        const auto row = body.take<int64_t>(0, wanted_ - 1);
        body.end();
        executor_.logits(row);
        return {};
      }
      case Kind::Pick: {
        begin(body);
        const auto rows = body.take<int64_t>(0, wanted_);
        body.end();
        pick(static_cast<size_t>(rows));
        return {};
      }
      case Kind::Score: {
        begin(body);
        const auto targets = body.take_list<int32_t>();
        body.end();
        const int64_t vocab = executor_.program().vocab();
        const bool known = std::all_of(targets.begin(), targets.end(), [&](int32_t target) {
          return target >= -1 && target < vocab;
        });
        if (!known || std::ssize(targets) > wanted_) throw Garbled();
        executor_.score(targets);
        return {};
      }
      case Kind::Read: {
        std::vector<std::byte> bytes;
        const auto [kind, number] = take_place(body, bytes);
        body.end();
        const CacheRead part{kind, number, bytes};
        executor_.read_cache({&part, 1});
        return std::move(Writer().add_bytes(bytes));
      }
      case Kind::Write: {
        std::vector<std::byte> size;
        const auto [kind, number] = take_place(body, size);
        const std::vector<std::byte> bytes = body.take_list<std::byte>();
        body.end();
        if (bytes.size() != size.size()) throw Garbled();
        const CacheWrite part{kind, number, bytes};
        executor_.write_cache({&part, 1});
        return {};
      }
      case Kind::Facts:
      case Kind::Verdict:
      case Kind::Start:
      case Kind::Go:
      case Kind::Drop:
      case Kind::Abort:
      case Kind::End:
      case Kind::Done:
      case Kind::Failed:
        break;
    }
    throw Garbled();
  }

 private:
  void begin(Reader& body) { exchange_.begin(body.take<uint64_t>()); }

  Writer run(Reader& body) {
    const ReceivedStep received(body, executor_);
    wanted_ = 0;
    wanted_ = executor_.run_extended(received.step(), received.extension());
    return std::move(Writer().add(wanted_));
  }

  // The first rank picks. This one computes its part of the same logits, in the same order.
  void pick(size_t rows) {
    static const SamplingParams kGreedy = {.temperature = 0};
    const std::vector<PickRequest> requests(rows, {&kGreedy, {}});
    executor_.pick(requests);
  }

  // Which page or state; `bytes` gets its size.
  std::pair<CacheKind, int32_t> take_place(Reader& body, std::vector<std::byte>& bytes) {
    const bool page = body.take<uint8_t>(0, 1) == static_cast<uint8_t>(CacheKind::Page);
    const int64_t count = page ? executor_.pages().size() : executor_.pages().states().size();
    if (count == 0) throw Garbled();
    const auto number = body.take<int32_t>(0, static_cast<int32_t>(count - 1));
    bytes.resize(static_cast<size_t>(page ? executor_.page_bytes() : executor_.state_bytes()));
    return {page ? CacheKind::Page : CacheKind::State, number};
  }

  NodeExchange& exchange_;
  RankExecutor& executor_;
  int64_t wanted_ = 0;  // rows of the last step
};

Writer failed_body(const Error& error) {
  Writer body;
  body.add(static_cast<int32_t>(error.code())).add_text(error.what());
  return body;
}

}  // namespace

void say_failed(Links& links, const Error& error) noexcept {
  try {
    links.answer(Kind::Failed, failed_body(error));
  } catch (...) {  // no memory for the message; the connection ends, which says it too
  }
}

void serve(Links& links, NodeExchange& exchange, RankExecutor& executor) {
  Server server(exchange, executor);
  // Takes a message that has no answer. False: it has one.
  bool ended = false;
  const auto take = [&](const Message& message) {
    if (message.kind == Kind::Abort) {
      exchange.end(Reader(message.body).take<uint64_t>());
    } else if (message.kind == Kind::Drop) {
      executor.drop_logits();
    } else if (message.kind == Kind::End) {
      const std::string reason = Reader(message.body).take_text();
      if (!reason.empty()) {
        fail(Exit::Failed, "rank ", links.rank(),
             " ends with the group: ", printable(reason, 2000));
      }
      ended = true;
    } else {
      return false;
    }
    return true;
  };
  while (!ended) {
    const Message message = links.receive(0);
    if (take(message)) continue;
    try {
      links.answer(Kind::Done, server.answer(message));
    } catch (const Garbled&) {
      throw;
    } catch (const Error& error) {
      // What has ended the exchange is read first: an answer to a first rank that has gone would
      // make the system drop its last words.
      while (!ended && links.pending()) {
        if (!take(links.receive(0))) throw Garbled();
      }
      say_failed(links, error);
    } catch (const std::bad_alloc&) {
      say_failed(links, Error(Exit::Memory, "the machine is out of memory"));
    }
  }
}

}  // namespace skald::nodes
