#include "app/perplexity/run.h"

#include <cmath>

#include "app/perplexity/total.h"
#include "engine/cpu/executor.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

PplTotal total_of(PplRun run, const PplSettings& settings, int64_t tokens) {
  PplHeading heading;
  heading.settings = settings;
  heading.text_tokens = tokens;
  heading.chunks = run.last;
  PplTotal total(heading);
  run.on_chunk = [&](const PplChunk& chunk) { total.add(chunk); };
  CHECK(run_perplexity(run));
  return total;
}

TEST_CASE("the mean negative log-likelihood of every golden agrees with Hugging Face's to 1e-5") {
  const std::string name =
      GENERATE("llama-mha", "llama3-gqa-tied-ropescale", "llama3-long-3000", "openllama-headdim100",
               "llama-bias-linear-rope", "mistral-swa-headdim64", "qwen2-bias-tied", "kq256");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  CAPTURE(name);
  const nlohmann::json golden = read_json(folder / "golden.json");
  const auto ids = golden["input_ids"].get<std::vector<int32_t>>();
  const int64_t count = std::ssize(ids);
  const OpenedModel opened = open_model(folder);
  const auto executor = cpu::make_executor(opened.model, {.exact = true});
  const PplSettings settings = parse_protocol(concat("gptq:", count));
  const auto chunks = id_chunks(settings, ids, {});
  PplRun run;
  run.devices = {{executor.get()}};
  run.chunks = chunks.get();
  run.last = 1;
  const PplTotal total = total_of(run, settings, count);
  CHECK(total.sums().tokens == count - 1);
  CHECK(std::fabs(total.sums().mean().value - golden["mean_nll"].get<double>()) <= 1e-5);
}

TEST_CASE("a chunk's sums do not depend on the chunks in the same step, nor on threads") {
  const Model model = random_llama({});
  const std::vector<int32_t> ids = random_tokens(700, 4);
  for (const char* protocol : {"llama.cpp:64", "gptq:50"}) {
    const PplSettings settings = parse_protocol(protocol);
    const auto chunks = id_chunks(settings, ids, 1);
    std::optional<PplSums> expected;
    for (const auto& [rows, sequences, threads] : {std::tuple(64, 1, 1), std::tuple(7, 1, 2),
                                                   std::tuple(300, 4, 3), std::tuple(500, 9, 2)}) {
      const auto executor = cpu::make_executor(
          model, {.context = 64, .sequences = sequences, .rows = rows, .threads = threads});
      PplRun run;
      run.devices = {{executor.get()}};
      run.chunks = chunks.get();
      run.last = chunks->count();
      const PplSums sums = total_of(run, settings, 700).sums();
      if (!expected) expected = sums;
      CHECK(sums.tokens == expected->tokens);
      CHECK(sums.nll == expected->nll);
      CHECK(sums.nll_squared == expected->nll_squared);
    }
  }
}

TEST_CASE(
    "a model compared with itself has no divergence, and a comparison by file is close to the "
    "direct one") {
  const Model model = random_llama({}), other = random_llama({.seed = 2});
  const std::vector<int32_t> ids = random_tokens(260, 4);
  const PplSettings settings = parse_protocol("llama.cpp:64");
  const auto chunks = id_chunks(settings, ids, 1);
  const RunOptions options = {.context = 64, .sequences = 2, .rows = 128};
  const auto executor = cpu::make_executor(model, options);
  const auto base = cpu::make_executor(other, options), same = cpu::make_executor(model, options);
  TempFolder folder;
  const std::string llama = (folder.path() / "a").string(), small = (folder.path() / "b").string();

  PplRun run;
  run.devices = {{base.get()}};
  run.chunks = chunks.get();
  run.last = chunks->count();
  PplHeading heading;
  heading.settings = settings;
  heading.chunks = 4;
  heading.corpus_hash = heading.tokenizer_hash = "x";
  for (const bool compact : {false, true}) {
    const auto writer = compact ? write_compact_base(small, heading, {0, 4, 300}, 50)
                                : write_llama_logits(llama, 64, 300, std::span(ids).first(256));
    run.save = writer.get();
    total_of(run, settings, 260);
    writer->finish();
  }
  run.save = nullptr;
  const double base_nll = total_of(run, settings, 260).sums().nll;

  run.devices = {{executor.get(), same.get()}};
  const PplTotal itself = total_of(run, settings, 260);
  CHECK(itself.comparison()->divergence == 0);
  CHECK(itself.comparison()->nll == 0);
  CHECK(itself.comparison()->same_top == itself.sums().tokens);

  run.devices = {{executor.get(), base.get()}};
  const PplTotal direct = total_of(run, settings, 260);
  CHECK(direct.comparison()->base.nll == base_nll);
  CHECK(direct.divergences().total() == direct.sums().tokens);
  const double divergence = direct.comparison()->divergence;
  CHECK(divergence > 0.01);

  run.devices = {{executor.get()}};
  const auto logits = open_base_file(llama), rows = open_base_file(small);
  run.base_file = logits.get();
  const ComparisonSums by_logits = *total_of(run, settings, 260).comparison();
  CHECK(by_logits.divergence == Approx(divergence).epsilon(1e-3));
  CHECK(by_logits.base.nll == Approx(base_nll).epsilon(1e-5));
  run.base_file = rows.get();
  const ComparisonSums by_rows = *total_of(run, settings, 260).comparison();
  CHECK(by_rows.divergence <= divergence * (1 + 1e-5));
  CHECK(by_rows.divergence + by_rows.slack >= divergence * (1 - 1e-5));
  CHECK(by_rows.base.nll == Approx(base_nll).epsilon(1e-6));

  // From the third chunk on: the file's rows are found by number.
  run.first = 2;
  run.base_row = 2 * 31;
  const ComparisonSums later = *total_of(run, settings, 260).comparison();
  run.base_file = nullptr;
  run.devices = {{executor.get(), base.get()}};
  CHECK(later.base.nll ==
        Approx(total_of(run, settings, 260).comparison()->base.nll).epsilon(1e-6));
}

TEST_CASE("NaN ends a run, and the error names chunk, token and layer") {
  for (const auto& [name, says] :
       {std::pair("blk.1.ffn_down.weight", "layer 1 (linear blk.1.ffn_down.weight)"),
        std::pair("blk.0.attn_norm.weight", "layer 0 (rms_norm blk.0.attn_norm.weight)"),
        std::pair("output.weight", "the logits"),
        std::pair("token_embd.weight", "the embedding")}) {
    const Model model = random_llama({});
    const Tensor* tensor = model.weights->find(name);
    REQUIRE(tensor);
    const float bad = std::nanf("");
    std::memcpy(const_cast<std::byte*>(tensor->view.row(tensor->view.rows - 1)), &bad, sizeof bad);
    std::vector<int32_t> ids = random_tokens(200, 4);
    for (int32_t& id : ids) id = std::min(id, 298);
    ids[150] = 299;  // the embedding's last row, used in the third chunk
    const bool late = std::string_view(name) == "token_embd.weight";
    const auto executor = cpu::make_executor(model, {.context = 50, .sequences = 4, .rows = 200});
    const auto chunks = id_chunks(parse_protocol("gptq:50"), ids, {});
    PplRun run;
    run.devices = {{executor.get()}};
    run.chunks = chunks.get();
    run.last = 4;
    run.on_chunk = [](const PplChunk&) {};
    const std::string message = error_text([&] { run_perplexity(run); }, Exit::Failed);
    CAPTURE(name, message);
    CHECK(has(message, says));
    CHECK(has(message, late ? "chunk 3, token 151" : "chunk 0, token 1: the model gives NaN"));
    CHECK(executor->pages().free_pages() == executor->pages().size());
  }
}

TEST_CASE("a stopped run has delivered whole chunks only") {
  const Model model = random_llama({});
  const std::vector<int32_t> ids = random_tokens(500, 4);
  const auto chunks = id_chunks(parse_protocol("gptq:50"), ids, {});
  const auto executor = cpu::make_executor(model, {.context = 50, .rows = 20});
  PplRun run;
  run.devices = {{executor.get()}};
  run.chunks = chunks.get();
  run.last = 10;
  int64_t given = 0, asked = 0;
  run.on_chunk = [&](const PplChunk& chunk) {
    CHECK(chunk.chunk == given++);
    CHECK(chunk.sums.tokens == 49);
  };
  run.keep_going = [&] { return ++asked < 12; };
  CHECK(!run_perplexity(run));
  // A chunk takes three steps; go_on is asked before each step and after each chunk.
  CHECK(given == 3);
}

TEST_CASE("several devices share the chunks, and results arrive in the order of the text") {
  const Model model = random_llama({});
  const std::vector<int32_t> ids = random_tokens(1500, 4);
  const PplSettings settings = parse_protocol("gptq:50");
  const auto chunks = id_chunks(settings, ids, {});
  std::vector<std::unique_ptr<Executor>> executors;
  // The executors differ in speed: one takes two chunks in a step, others many steps for one chunk.
  for (const int rows : {100, 20, 7}) {
    executors.push_back(cpu::make_executor(
        model, {.context = 50, .sequences = rows > 50 ? 2 : 1, .rows = rows, .threads = 1}));
  }
  std::vector<int64_t> places;
  PplRun run;
  run.devices = {{executors[0].get()}};
  run.chunks = chunks.get();
  run.last = chunks->count();
  run.on_token = [&](const PplToken& token) { places.push_back(token.place); };
  const PplSums expected = total_of(run, settings, 1500).sums();
  const std::vector<int64_t> expected_places = std::exchange(places, {});
  REQUIRE(expected_places.size() == 30 * 49);
  for (size_t i = 1; i < 3; ++i) run.devices.push_back({executors[i].get()});
  const PplSums sums = total_of(run, settings, 1500).sums();  // PplTotal requires chunks in order
  CHECK(sums.nll == expected.nll);
  CHECK(sums.tokens == expected.tokens);
  CHECK(places == expected_places);

  int given = 0;
  run.on_token = {};
  run.on_chunk = [&](const PplChunk& chunk) {
    CHECK(chunk.chunk == given++);
    if (given == 10) fail(Exit::Failed, "no more");
  };
  CHECK(has(error_text([&] { run_perplexity(run); }, Exit::Failed), "no more"));
  CHECK(given >= 10);
}

}  // namespace
}  // namespace skald::test
