// Groups whose ranks have connections between them, here in threads of one process; and peers that
// do not behave. tests/app/model/nodes_test.cpp has real processes.
#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "engine/cpu/executor.h"
#include "engine/nodes/group.h"
#include "engine/nodes/remote_rank.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/error_text.h"
#include "tests/free_port.h"

namespace skald::test {
namespace {

using namespace skald::nodes;

const RandomLlama kNodesShape = {.layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 64};

Party party(int rank, int of, int port) {
  Party one;
  one.rank = rank;
  one.of = of;
  one.address = {"127.0.0.1", port};
  one.secret = "secret";
  one.timeout = 5;
  one.join_timeout = 20;
  one.facts = {{"model", "llama"}};
  return one;
}

// Has no memory for some steps.
class ForgetfulRank final : public Wrapped<RankExecutor> {
 public:
  ForgetfulRank(std::unique_ptr<RankExecutor> inner, std::atomic<int>& failures)
      : Wrapped(std::move(inner)), failures_(failures) {}

  void check_step(Step step) const override { inner_->check_step(step); }
  int64_t run_extended(Step step, const Extension& extension) override {
    if (failures_ > 0 && failures_-- > 0) fail(Exit::Memory, "no memory for this step");
    return inner_->run_extended(step, extension);
  }
  void drop_logits() override { inner_->drop_logits(); }

 private:
  std::atomic<int>& failures_;
};

RankMaker maker(std::atomic<int>* failures = nullptr) {
  RankMaker made;
  made.plan = [](const Model& shard, const RunOptions& options) {
    RunOptions planned = options;
    planned.context = cpu::plan_memory(shard, options).context;
    return planned;
  };
  made.make = [failures](const Model& shard, const RunOptions& options,
                         std::shared_ptr<NodeExchange> exchange) -> std::unique_ptr<RankExecutor> {
    auto rank = cpu::make_rank(shard, options, cpu::KernelSet::Fast, std::move(exchange));
    if (!failures) return rank;
    return std::make_unique<ForgetfulRank>(std::move(rank), *failures);
  };
  return made;
}

// The other ranks of a group, each in a thread; and what they ended with.
class Servers {
 public:
  Servers(const Model& model, const RunOptions& options, int ranks, int port,
          std::atomic<int>* failures = nullptr)
      : errors_(static_cast<size_t>(ranks)) {
    for (int rank = 1; rank < ranks; ++rank) {
      threads_.emplace_back([=, this] {
        try {
          serve_rank(party(rank, ranks, port), model, options,
                     maker(rank + 1 == ranks ? failures : nullptr));
        } catch (const Error& error) {
          errors_[static_cast<size_t>(rank)] = error.what();
        }
      });
    }
  }
  ~Servers() { join(); }

  void join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  const std::string& error(int rank) const { return errors_[static_cast<size_t>(rank)]; }

 private:
  std::vector<std::string> errors_;
  std::vector<std::thread> threads_;
};

const RunOptions kNodesOptions = {
    .exact = true, .context = 256, .sequences = 3, .rows = 64, .threads = 1};

std::vector<float> last_row(Executor& executor, Sequence& sequence,
                            std::span<const int32_t> tokens) {
  const SeqRows rows{&sequence, tokens, Want::LastRow};
  executor.run({&rows, 1});
  const auto logits = executor.logits(0);
  return {logits.begin(), logits.end()};
}

TEST_CASE("ranks with connections between them give the bits of ranks in one process") {
  const Model model = random_llama(kNodesShape);
  const std::vector<int32_t> tokens = random_tokens(100, 3);
  for (const int ranks : {2, 3}) {
    const int port = free_port();
    Servers servers(model, kNodesOptions, ranks, port);
    const auto group = lead_group(party(0, ranks, port), model, kNodesOptions, maker());
    RunOptions together = kNodesOptions;
    together.threads = ranks;
    const auto threads = cpu::make_group(model, together, ranks);
    const auto same_steps = [&](Executor& executor) {
      std::vector<std::vector<float>> rows;
      Sequence whole = executor.new_sequence();
      rows.push_back(last_row(executor, whole, std::span(tokens).first(50)));
      rows.push_back(last_row(executor, whole, std::span(tokens).subspan(50, 40)));
      Sequence fork = whole.fork();  // whose last page is copied
      rows.push_back(last_row(executor, fork, std::span(tokens).subspan(90)));
      rows.push_back(last_row(executor, whole, std::span(tokens).subspan(90, 3)));
      const SamplingParams greedy = {.temperature = 0};
      const PickRequest request{&greedy, {}};
      rows.push_back({static_cast<float>(executor.pick({&request, 1}).front().token)});
      const SeqRows scored{&fork, std::span(tokens).first(9), Want::EveryRow};
      executor.run({&scored, 1});
      for (const TokenScore& score : executor.score(std::span(tokens).subspan(1, 9))) {
        rows.push_back({static_cast<float>(score.logprob)});
      }
      // Pages are copied from all ranks and to all.
      std::vector<std::byte> bytes(static_cast<size_t>(executor.page_bytes()));
      Sequence copy = executor.new_sequence();
      last_row(executor, copy, std::span(tokens).last(20));
      executor.read_page(whole.pages()[0], bytes);
      executor.write_page(copy.pages()[0], bytes);
      rows.push_back(last_row(executor, copy, std::span(tokens).first(2)));
      return rows;
    };
    CHECK(same_steps(*group) == same_steps(*threads));
    CHECK(!group->observable());
    CHECK(group->page_bytes() == threads->page_bytes());
  }
}

TEST_CASE("the other ranks end when the first one ends") {
  const Model model = random_llama(kNodesShape);
  const int port = free_port();
  Servers servers(model, kNodesOptions, 3, port);
  lead_group(party(0, 3, port), model, kNodesOptions, maker()).reset();
  servers.join();
  CHECK(servers.error(1) == "");
  CHECK(servers.error(2) == "");
}

TEST_CASE("a step that one rank has no memory for fails, and the group goes on") {
  const Model model = random_llama(kNodesShape);
  const std::vector<int32_t> tokens = random_tokens(100, 3);
  const int port = free_port();
  std::atomic<int> failures{0};
  Servers servers(model, kNodesOptions, 3, port, &failures);
  const auto group = lead_group(party(0, 3, port), model, kNodesOptions, maker());
  Sequence sequence = group->new_sequence();
  const std::vector<float> expected = last_row(*group, sequence, std::span(tokens).first(60));
  for (int time = 0; time < 3; ++time) {
    sequence.truncate(0);
    failures = 4;  // the step, and its repetitions
    const std::string text =
        error_text([&] { last_row(*group, sequence, std::span(tokens).first(60)); }, Exit::Memory);
    CHECK(text == "rank 2 (127.0.0.1): no memory for this step");
    CHECK(sequence.length() == 0);
    failures = time;  // repeated until there is memory
    CHECK(last_row(*group, sequence, std::span(tokens).first(60)) == expected);
  }
}

TEST_CASE("ranks with other facts, another number or another secret are refused by name") {
  const Model model = random_llama(kNodesShape);
  const auto refused = [&](const Party& other) {
    const int port = free_port();
    std::string theirs;
    std::thread thread([&] {
      Party there = other;
      there.address.port = port;
      theirs = error_text([&] { serve_rank(there, model, kNodesOptions, maker()); }, Exit::Failed);
    });
    Party first = party(0, 2, port);
    first.join_timeout = 1;
    const std::string mine =
        error_text([&] { lead_group(first, model, kNodesOptions, maker()); }, Exit::Failed);
    thread.join();
    return std::pair(mine, theirs);
  };
  Party facts = party(1, 2, 0);
  facts.facts = {{"model", "qwen"}};
  auto [mine, theirs] = refused(facts);
  CHECK(mine ==
        "rank 1 (127.0.0.1): its model is qwen, the first rank's is llama; all ranks take the same "
        "command");
  CHECK(
      theirs ==
      "the group does not begin: rank 1 (127.0.0.1): its model is qwen, the first rank's is llama");
  std::tie(mine, theirs) = refused(party(2, 3, 0));
  CHECK(mine ==
        "rank 2 (127.0.0.1) cannot join: it is one of 3 ranks, and the first rank is one of 2");
  CHECK(theirs == "rank 2 cannot join: it is one of 3 ranks, and the first rank is one of 2");
  Party stranger = party(1, 2, 0);
  stranger.secret = "guess";
  std::tie(mine, theirs) = refused(stranger);
  CHECK(has(mine, "rank 1 has not come to 127.0.0.1:"));
  CHECK(has(mine, " within 1 s; refused without the secret: 1"));
  CHECK(has(theirs, "what listens there has another secret"));
}

TEST_CASE("a stranger who sends anything is refused, and the ranks still find each other") {
  const Model model = random_llama(kNodesShape);
  const int port = free_port();
  std::optional<Servers> servers;
  std::thread strangers([&] {
    const auto until = Clock::now() + std::chrono::seconds(20);
    for (const size_t bytes : {0, 1, 7, 56, 57, 5000}) {
      const Socket socket = connect_to({"127.0.0.1", port}, until);
      const std::vector<std::byte> noise(bytes, std::byte{0x5a});
      socket.send(noise);
    }
    servers.emplace(model, kNodesOptions, 2, port);
  });
  const auto group = lead_group(party(0, 2, port), model, kNodesOptions, maker());
  strangers.join();
  Sequence sequence = group->new_sequence();
  CHECK(!last_row(*group, sequence, random_tokens(5, 1)).empty());
}

// A first rank that knows the secret and sends what it likes.
TEST_CASE("a rank that gets a garbled message ends with an error") {
  const Model model = random_llama(kNodesShape);
  const std::vector<int32_t> one_page = {0}, no_page = {}, far_page = {1 << 20}, token = {1},
                             far_token = {1 << 20};
  const auto step = [&](const std::vector<int32_t>& pages, int64_t length, int32_t state,
                        const std::vector<int32_t>& tokens, uint8_t want, int32_t copy) {
    Writer body;
    body.add(uint64_t{0}).add(uint32_t{1});
    body.add_list(std::span(pages)).add(length).add(state);
    body.add_list(std::span(tokens)).add(want);
    for (int i = 0; i < 2; ++i) body.add(copy).add(copy);
    return body;
  };
  struct Bad {
    Kind kind;
    Writer body;
  };
  const std::vector<Bad> all = {
      {Kind::Run, Writer()},
      {Kind::Run, Writer().add(uint64_t{0}).add(uint32_t{0})},
      {Kind::Run, Writer().add(uint64_t{0}).add(~uint32_t{0})},
      {Kind::Run, Writer().add(uint64_t{0}).add(uint32_t{1}).add(~uint64_t{0})},
      {Kind::Run, step(no_page, 1, -1, token, 1, -1)},
      {Kind::Run, step(far_page, 1, -1, token, 1, -1)},
      {Kind::Run, step(one_page, 0, -1, token, 1, -1)},
      {Kind::Run, step(one_page, 1 << 20, -1, token, 1, -1)},
      {Kind::Run, step(one_page, 1, 0, token, 1, -1)},
      {Kind::Run, step(one_page, 1, -1, far_token, 1, -1)},
      {Kind::Run, step(one_page, 1, -1, no_page, 1, -1)},
      {Kind::Run, step(one_page, 1, -1, token, 3, -1)},
      {Kind::Run, step(one_page, 1, -1, token, 1, 1 << 20)},
      {Kind::Logits, Writer().add(uint64_t{0}).add(int64_t{0})},  // no row is wanted
      {Kind::Pick, Writer().add(uint64_t{0}).add(int64_t{1})},
      {Kind::Score, Writer().add(uint64_t{0}).add_list(std::span(token))},
      {Kind::Read, Writer().add(uint8_t{0}).add(int32_t{1 << 20})},
      {Kind::Read, Writer().add(uint8_t{1}).add(int32_t{0})},  // no states
      {Kind::Write, Writer().add(uint8_t{0}).add(int32_t{0}).add_list(std::span(token))},
      {Kind::Facts, Writer()},
  };
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const int port = free_port();
    std::string error;
    std::thread rank([&] {
      error = error_text([&] { serve_rank(party(1, 2, port), model, kNodesOptions, maker()); },
                         Exit::Failed);
    });
    {
      Links links(party(0, 2, port));
      Writer options;
      options.add(uint8_t{1}).add(uint8_t{0}).add(int32_t{-1}).add(int32_t{-1});
      options.add(int64_t{256}).add(int64_t{0}).add(int64_t{1}).add(int64_t{0}).add(int64_t{0});
      links.send(1, Kind::Start, options.add(int64_t{16}).add(uint8_t{0}));
      CHECK(links.receive(1).kind == Kind::Done);
      links.send(1, Kind::Go, Writer().add(int64_t{256}));
      CHECK(links.receive(1).kind == Kind::Done);
      links.send(1, all[i].kind, all[i].body);
      rank.join();
    }
    CHECK(error == "another rank sent a message that is not understood");
  }
}

TEST_CASE("frames that a failure has cut are completed and skipped") {
  int ends[2], wakes[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wakes) == 0);
  const Socket a(ends[0]), b(ends[1]), wake(wakes[0]), waker(wakes[1]);
  int quiet[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, quiet) == 0);
  const Socket never(quiet[0]), never_other(quiet[1]);
  Frames sender(a, wake.fd()), receiver(b, wake.fd());
  const std::byte word{1};
  std::byte heard;
  // More than the buffers hold: nobody receives, so the sender is in the middle of a frame.
  const std::vector<float> large(1 << 20, 1.0f);
  waker.send({&word, 1});
  CHECK(sender.send(0, large) == Frames::Result::Woken);
  CHECK(wake.receive({&heard, 1}));
  const std::vector<float> next = {1, 2, 3};
  std::vector<float> got(3);
  std::thread thread([&] { sender.send(1, next); });
  CHECK(receiver.receive(1, got) == Frames::Result::Done);
  thread.join();
  CHECK(got == next);
  // The receiver is in the middle of a frame.
  Frames steady(a, never.fd());
  std::vector<float> all(large.size());
  std::thread slow([&] {
    steady.send(1, large);
    steady.send(2, next);
  });
  std::thread wakes_it([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    waker.send({&word, 1});
  });
  const Frames::Result cut = receiver.receive(1, all);
  wakes_it.join();
  CHECK((cut == Frames::Result::Woken || cut == Frames::Result::Done));
  CHECK(wake.receive({&heard, 1}));
  got.assign(3, 0);
  CHECK(receiver.receive(2, got) == Frames::Result::Done);
  CHECK(got == next);
  slow.join();
}

}  // namespace
}  // namespace skald::test
