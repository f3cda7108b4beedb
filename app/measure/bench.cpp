// skald bench: measures tokens per second. For decode, also measures bytes read per second as a
// share of the read bandwidth that the same threads or GPU reach in the same run.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "app/files/json.h"
#include "app/files/signals.h"
#include "app/measure/bench_report.h"
#include "app/measure/bench_steps.h"
#include "app/model/device.h"
#include "app/model/expert_use.h"
#include "app/model/open.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/terminal.h"
#include "app/terminal/word_wrap.h"
#include "engine/base/error.h"
#include "models/random/random.h"

namespace skald {
namespace {

using Clock = std::chrono::steady_clock;

// A --score test has texts of this many tokens together, or a single longer text.
constexpr int64_t kScoredTokens = 16384;

struct BenchFlags {
  ModelFlags model;
  std::string model_word;  // [MODEL]
  std::string shape;
  std::vector<int64_t> prompts{512}, counts{128}, scores{0}, depths{0}, sequences{1};
  double accepted = -1;  // BenchCase::accepted
  int guesses = 4;       // at most, in a step
  int repetitions = 3;
  bool json = false, csv = false, markdown = false;
};

// Multiply-adds with weight matrices per row.
double products_per_row(const Program& program) {
  double products = 0;
  const auto count = [&](WeightId id) {
    const TensorView& w = program.weight(id).view;
    products += static_cast<double>(w.rows) * static_cast<double>(w.cols);
  };
  for (const Op& op : program.ops) {
    if (const auto* linear = std::get_if<Linear>(&op)) count(linear->weight);
    if (const auto* experts = std::get_if<Experts>(&op)) {
      count(experts->router);
      for (int i = 0; i < experts->spec.used; ++i) {
        for (WeightId id : {experts->gate, experts->up, experts->down}) {
          if (id != WeightId::None) count(id);
        }
      }
    }
  }
  return products;
}

// Prints the current test to stderr. A terminal shows one line that is overwritten. A file or pipe
// gets a line per test, but only after the first two seconds.
class TestLine {
 public:
  ~TestLine() {
    if (terminal_) std::fprintf(stderr, "\r\x1b[K");
  }

  void show(const std::string& what) {
    constexpr double kSilentSeconds = 2;
    if (terminal_) {
      std::fprintf(stderr, "\r\x1b[K%s", fitted(what, stderr_columns() - 1).c_str());
    } else if (std::chrono::duration<double>(Clock::now() - start_).count() > kSilentSeconds) {
      std::fprintf(stderr, "skald bench: %s\n", what.c_str());
    }
  }

 private:
  Clock::time_point start_ = Clock::now();
  bool terminal_ = stderr_is_terminal();
};

// The tokens that a test appends to a sequence, at most.
int64_t room_of(const BenchCase& test, const BenchFlags& flags) {
  return test.tokens + (test.guesses() ? 2 * (flags.guesses + 1) : 0);
}

// BenchResult::seconds is empty if Ctrl-C came before the first repetition ended.
BenchResult measure(Executor& executor, const BenchCase& test, const BenchFlags& flags,
                    TestLine& progress) {
  const int64_t rows = flags.model.run.rows > 0 ? flags.model.run.rows : executor.max_rows();
  BenchResult result{test, {}};
  progress.show(test.name() + ": warming up");
  std::vector<BenchSequence> sequences;
  for (int64_t i = 0; i < test.sequences; ++i) {
    BenchSequence& made = sequences.emplace_back(executor, test.depth + room_of(test, flags) + 1,
                                                 static_cast<uint64_t>(i));
    if (!feed(executor, made.sequence, made.part(0, test.depth), rows, false)) return result;
    made.sequence.checkpoint();  // a recurrent state returns to the depth
  }
  auto once = [&](int64_t tokens) {
    BenchSequence& first = sequences.front();
    return test.prompt ? feed(executor, first.sequence, first.part(test.depth, tokens), rows, true)
                       : decode(executor, sequences, tokens);
  };
  auto reset = [&] {
    for (BenchSequence& s : sequences) s.sequence.truncate(test.depth);
  };
  // Decode warms up with three steps. On a GPU the first step runs without a CUDA graph, the second
  // captures one, and the third captures the graph of pick_and_run().
  const int64_t warm = test.prompt ? test.tokens : 3;
  for (int64_t done = 0; done < warm; done += std::min(warm, test.tokens)) {
    reset();
    once(std::min(warm, test.tokens));
  }
  GuessControl control(1, flags.guesses);
  const auto guessing = [&](uint64_t seed) {
    return decode_guessing(executor, sequences, test.tokens, {control, test.accepted, seed});
  };
  // The control learns the times of steps with guesses, and a GPU captures their graphs.
  for (uint64_t seed = 100; test.guesses() && seed < 103; ++seed) {
    reset();
    guessing(seed);
  }
  for (int i = 0; i < flags.repetitions; ++i) {
    progress.show(concat(test.name(), ": ", i + 1, " of ", flags.repetitions));
    reset();
    const auto start = Clock::now();
    const int64_t made = test.guesses()      ? guessing(static_cast<uint64_t>(i))
                         : once(test.tokens) ? test.tokens
                                             : 0;
    if (made == 0) break;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    // The last step may have made more tokens than the test has.
    result.seconds.push_back(seconds * static_cast<double>(test.tokens) /
                             static_cast<double>(made));
  }
  if (test.guesses()) return result;  // its steps differ in what they read
  const double count = static_cast<double>(test.tokens);
  if (test.prompt) {
    result.flops = 2 * products_per_row(executor.program()) * count;
  } else {
    const double mean_length = static_cast<double>(test.depth) + (count + 1) / 2;
    const double cache = static_cast<double>(test.sequences * executor.cache_bytes_per_token());
    // A step reads a recurrent state and writes it.
    const double states = 2 * static_cast<double>(test.sequences * executor.state_bytes());
    result.bytes = count * (static_cast<double>(executor.program().weight_bytes(test.sequences)) +
                            mean_length * cache + states);
  }
  return result;
}

// Measures scoring whole texts. A text of N tokens has N - 1 rows: the last token is only a target.
BenchResult measure_scoring(Executor& executor, const BenchCase& test, const BenchFlags& flags,
                            TestLine& progress) {
  BenchResult result{test, {}};
  // The number of texts that fill two steps.
  const int64_t count =
      std::clamp<int64_t>(2 * executor.max_rows() / test.tokens, 1, test.sequences);
  result.test.sequences = count;
  std::vector<std::vector<int32_t>> texts;
  std::vector<TokenWindow> windows;
  for (int64_t i = 0; i < count; ++i) {
    texts.push_back(random_tokens(executor, test.tokens, static_cast<uint64_t>(i)));
  }
  windows.reserve(texts.size());
  for (const std::vector<int32_t>& text : texts) windows.push_back({text});
  progress.show(test.name() + ": warming up");
  if (!score(executor, windows)) return result;
  for (int i = 0; i < flags.repetitions; ++i) {
    progress.show(concat(test.name(), ": ", i + 1, " of ", flags.repetitions));
    const auto start = Clock::now();
    if (!score(executor, windows)) break;
    result.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  result.flops = 2 * products_per_row(executor.program()) * result.test.all_tokens();
  return result;
}

std::vector<BenchCase> list_cases(const BenchFlags& flags) {
  std::vector<BenchCase> cases;
  for (int64_t depth : flags.depths) {
    for (int64_t tokens : flags.prompts) {
      if (tokens > 0) cases.push_back({true, tokens, depth});
    }
    for (int64_t sequences : flags.sequences) {
      for (int64_t tokens : flags.counts) {
        if (tokens == 0) continue;
        cases.push_back({false, tokens, depth, sequences});
        if (flags.accepted >= 0) {
          cases.push_back({false, tokens, depth, sequences, false, flags.accepted});
        }
      }
    }
  }
  for (int64_t tokens : flags.scores) {
    if (tokens == 1) {
      fail(Exit::Usage, "--score 1: a text's first token is not scored; expected 0, or 2 or more");
    }
    if (tokens == 0) continue;
    const int64_t texts = std::max<int64_t>(kScoredTokens / tokens, 1);
    cases.push_back(
        {.prompt = true, .tokens = tokens, .depth = 0, .sequences = texts, .scored = true});
  }
  if (cases.empty()) {
    fail(Exit::Usage, "nothing to measure: -p, -n and --score are all 0; set one of them");
  }
  return cases;
}

Model open_or_make_model(const BenchFlags& flags, std::string& name) {
  if (!flags.shape.empty()) {
    if (flags.model.type.empty()) {
      fail(Exit::Usage, "--shape needs --type, as in --shape llama-3.2-1b --type q8_0");
    }
    if (!flags.model.model.empty()) fail(Exit::Usage, "give either a model or --shape, not both");
    refuse_adapters(flags.model.lora);
    name = flags.shape + " " + flags.model.type;
    Model model = random_model(flags.shape, flags.model.type);
    model.shard = {0, choose_ranks(flags.model.device, model, flags.model.run)};
    return model;
  }
  const OpenedModel opened = open_model(flags.model);
  name = std::filesystem::absolute(opened.path).lexically_normal().filename().string();
  if (name.empty()) name = opened.path.string();
  if (!flags.model.type.empty()) name += " as " + flags.model.type;
  if (opened.model.adapters) name += " with adapters";
  return opened.model;
}

BenchReport measure_all(const BenchFlags& flags, const std::vector<BenchCase>& cases) {
  TestLine progress;
  const Device asked = parse_device(flags.model.device);
  BenchReport report;
  if (!flags.shape.empty()) progress.show("making random weights");
  const Model model = open_or_make_model(flags, report.model);
  RunOptions options = flags.model.run;
  int64_t longest = 0, sequences = 1, together = 0, guessed_rows = 0;
  for (const BenchCase& test : cases) {
    longest = std::max(longest, test.depth + room_of(test, flags));
    if (test.guesses()) guessed_rows = std::max(guessed_rows, test.sequences * (flags.guesses + 1));
    options.scores = options.scores || test.scored;
    if (test.scored) {
      together = std::max(together, test.sequences);
    } else {
      sequences = std::max(sequences, test.sequences);
    }
  }
  if (options.context > 0 && options.context < longest) {
    fail(Exit::Usage, "-c ", options.context, ": the tests need a context of ", longest,
         " tokens; leave -c out, or give at least that");
  }
  options.context = std::max(options.context, longest);
  options.sequences = static_cast<int>(std::max(sequences, together));
  options.checkpoints = options.sequences;
  // Texts that are scored together are short: the cache need not hold a whole context for each.
  if (together > 0) {
    const int64_t tokens = std::max(options.context * sequences, 2 * kScoredTokens);
    options.cache_tokens = std::max(tokens, options.context);
  }
  // --rows limits prompts only: a decode step has one row per sequence, and one for each guess.
  if (options.rows > 0) options.rows = std::max({options.rows, sequences, guessed_rows});
  const Device device = choose_device(asked, model, options);
  const auto start = Clock::now();
  const auto executor = make_executor(model, options, device);
  if (flags.accepted >= 0 && executor->state_bytes() > 0) {
    fail(Exit::Usage,
         "--spec-accept: is not measured for models with recurrent layers; leave it out");
  }
  report.load_seconds = std::chrono::duration<double>(Clock::now() - start).count();

  report.bytes = model.weights->bytes();
  for (const Tensor& tensor : model.weights->tensors()) {
    report.parameters += tensor.view.rows * tensor.view.cols;
  }
  report.device = executor->description();
  report.cache_types = executor->cache_types();
  report.shows_cache = options.cache_types.any();
  if (!device.cuda) {
    report.threads = options.threads > 0 ? options.threads : cpu::available_threads();
  }
  for (const BenchCase& test : cases) {
    BenchResult result = test.scored ? measure_scoring(*executor, test, flags, progress)
                                     : measure(*executor, test, flags, progress);
    if (!result.seconds.empty()) report.results.push_back(std::move(result));
    if (interrupted_by()) break;
  }
  report.experts = executor->expert_use();
  if (!report.results.empty()) {
    progress.show("reading memory");
    report.bandwidth = measure_read_bandwidth(device, options.threads);
  }
  return report;
}

int bench(BenchFlags& flags) {
  name_model(flags.model.model, flags.model_word);
  const std::vector<BenchCase> cases = list_cases(flags);
  if (is_other_rank(flags.model.device)) {
    std::string name;
    return serve_rank(flags.model, open_or_make_model(flags, name));
  }
  const BenchReport report = measure_all(flags, cases);
  if (report.results.empty()) return 128 + interrupted_by();
  StandardOutput out;
  if (flags.json) {
    out.write(dump(to_json(report), 2) + "\n");
  } else if (flags.csv) {
    out.write(to_csv(to_csv_table(report)));
  } else {
    out.write(flags.markdown ? to_markdown(to_table(report)) : to_text(to_table(report)));
    char text[100];
    std::snprintf(text, sizeof text, "\nread bandwidth of this %s: %.1f GB/s\n",
                  report.threads > 0 ? "machine with these threads" : "GPU's memory",
                  report.bandwidth / 1e9);
    out.write(text);
    if (report.experts.all() > 0) out.write(expert_use_text(report.experts) + "\n");
  }
  return interrupted_by() ? 128 + interrupted_by() : 0;
}

}  // namespace

void add_bench(Command& program) {
  Command& command = program.add_command(
      "bench",
      "Measures speed in tokens per second. The tests are prompts of N tokens (pp), decode of N\n"
      "tokens (tg), and scoring texts of N tokens as perplexity does (sc). -d puts tokens into "
      "the\n"
      "cache before each pp and tg test. -b decodes several sequences in each step; the speed is\n"
      "then that of all sequences together. Decode is greedy and runs the same steps as run and\n"
      "batch; its speed is also shown in bytes read, as a share of this device's read bandwidth.",
      {"skald bench model.gguf", "skald bench --shape llama-3.2-1b --type q4_0 -p 128,512 -n 64",
       "skald bench model.gguf -p 0 -n 64 -d 512 -b 1,8,32",
       "skald bench model.gguf --json | jq '.results[].tokens_per_second'"});
  auto flags = std::make_shared<BenchFlags>();
  command.word("MODEL", "[MODEL]", flags->model_word).check(not_empty());
  add_model_flag(command, flags->model);
  add_shape_flags(command, flags->shape, flags->model);
  auto list = [&](const char* names, std::vector<int64_t>& value, const char* description) {
    return command.option(names, value, description)
        .type_name("N,N")
        .separated_by(',')
        .group("Measure");
  };
  const Check tokens = in_range(0, int64_t{1} << 24);
  list("-p,--n-prompt", flags->prompts, "Compute prompts of N tokens; 0: none [512]").check(tokens);
  list("-n,--n-gen", flags->counts, "Decode N tokens; 0: none [128]").check(tokens);
  list("--score", flags->scores, "Score texts of N tokens; 0: none [0]").check(tokens);
  list("-d,--n-depth", flags->depths, "Start with N tokens in the cache [0]").check(tokens);
  list("-b,--sequences", flags->sequences, "Decode N sequences at once [1]")
      .check(in_range(1, 1024));
  command
      .option("--spec-accept", flags->accepted,
              "Decode also with guesses, as --spec of run does, each right with probability P")
      .type_name("P")
      .check(number_where([](double p) { return p >= 0 && p <= 1; }, "a number from 0 to 1"))
      .group("Measure");
  command.option("--spec-max", flags->guesses, "Guess at most N tokens at a time")
      .type_name("N")
      .check(in_range(1, 16))
      .show_default()
      .group("Measure");
  command.option("-r,--repetitions", flags->repetitions, "Run each test N times")
      .type_name("N")
      .check(in_range(1, 10000))
      .show_default()
      .group("Measure");
  add_run_flags(command, flags->model);
  add_device_flag(command, flags->model);
  add_rank_flag(command, flags->model.device);
  const Option json = command.flag("--json", flags->json, "Print one JSON object").group("Output");
  const Option csv = command.flag("--csv", flags->csv, "Print CSV").group("Output");
  command.flag("--markdown", flags->markdown, "Print a Markdown table")
      .excludes(json)
      .excludes(csv)
      .group("Output");
  csv.excludes(json);
  command.action([=] { return bench(*flags); });
}

}  // namespace skald
