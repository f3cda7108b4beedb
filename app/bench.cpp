// skald bench: tokens per second, and what they are worth on this machine: bytes read per second
// against the read bandwidth that the same threads reach in the same run.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "app/commands.h"
#include "app/help.h"
#include "app/json.h"
#include "app/open.h"
#include "app/output.h"
#include "app/signals.h"
#include "app/table.h"
#include "engine/error.h"
#include "engine/rng.h"
#include "models/random.h"

namespace skald {
namespace {

struct BenchFlags {
  ModelFlags model;
  std::string shape, type;
  std::vector<int64_t> prompts{512}, counts{128}, depths{0};
  int repetitions = 3;
  bool json = false, csv = false, markdown = false;
};

// One line of the result: `tokens` as a prompt, or one after the other, after `depth` others.
struct Case {
  bool prompt;
  int64_t tokens, depth;

  std::string name() const {
    return concat(prompt ? "pp" : "tg", tokens, depth ? concat(" @ d", depth) : "");
  }
};

struct Result {
  Case test;
  std::vector<double> seconds;  // of each repetition
  double bytes = 0;             // weights and cache that a decode repetition reads; 0 for prompts
  double flops = 0;             // of the products with weights in one repetition

  double rate(double second) const { return static_cast<double>(test.tokens) / second; }
  double mean_rate() const {
    double sum = 0;
    for (double s : seconds) sum += rate(s);
    return sum / static_cast<double>(seconds.size());
  }
  double rate_deviation() const {
    double sum = 0;
    for (double s : seconds) sum += std::pow(rate(s) - mean_rate(), 2);
    return seconds.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(seconds.size() - 1));
  }
  double mean_seconds() const {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0) /
           static_cast<double>(seconds.size());
  }
};

struct Bench {
  std::string name;  // of the model
  int64_t bytes, parameters;
  std::string device;
  double bandwidth;  // bytes per second
  std::vector<Result> results;
};

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(uniform(7, 0, i, 0) * static_cast<double>(vocab)));
  }
  return tokens;
}

// Appends tokens in steps of at most `rows`; the last row's logits are computed where wanted.
void feed(Executor& executor, Sequence& sequence, std::span<const int32_t> tokens, int64_t rows,
          bool want_last) {
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(rows)));
    tokens = tokens.subspan(part.size());
    const Want want = want_last && tokens.empty() ? Want::LastRow : Want::Nothing;
    const SeqRows step{&sequence, part, want};
    executor.run({&step, 1});
    if (want == Want::LastRow) executor.logits(0);
  }
}

// Weights of matrices, each of which costs a multiplication and an addition for every row.
double products_per_row(const Program& program) {
  double products = 0;
  for (const Op& op : program.ops) {
    if (const auto* linear = std::get_if<Linear>(&op)) {
      const TensorView& w = program.weight(linear->weight).view;
      products += static_cast<double>(w.rows) * static_cast<double>(w.cols);
    }
  }
  return products;
}

Result measure(Executor& executor, const Case& test, int repetitions) {
  using Clock = std::chrono::steady_clock;
  const int64_t vocab = executor.program().vocab();
  const std::vector<int32_t> before = random_tokens(test.depth, vocab);
  const std::vector<int32_t> tokens = random_tokens(test.tokens, vocab);
  Result result{test, {}};
  Sequence sequence = executor.new_sequence();
  feed(executor, sequence, before, executor.max_rows(), false);
  const int64_t rows = test.prompt ? executor.max_rows() : 1;
  auto once = [&](std::span<const int32_t> some) {
    if (test.prompt) {
      feed(executor, sequence, some, rows, true);
    } else {
      for (const int32_t& token : some) feed(executor, sequence, {&token, 1}, 1, true);
    }
    sequence.truncate(test.depth);
  };
  once(std::span(tokens).first(std::min<size_t>(tokens.size(), test.prompt ? tokens.size() : 2)));
  for (int i = 0; i < repetitions && !interrupted_by(); ++i) {
    const auto start = Clock::now();
    once(tokens);
    result.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double count = static_cast<double>(test.tokens);
  if (test.prompt) {
    result.flops = 2 * products_per_row(executor.program()) * count;
  } else {
    const double mean_length = static_cast<double>(test.depth) + (count + 1) / 2;
    result.bytes = count * (static_cast<double>(executor.program().weight_bytes()) +
                            mean_length * static_cast<double>(executor.cache_bytes_per_token()));
  }
  return result;
}

std::string number(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

Table to_table(const Bench& bench) {
  Table table{{"model", "size", "params", "backend", "test", "t/s", "GB/s", "% of read", "GFLOP/s"},
              {}};
  for (const Result& r : bench.results) {
    const double bytes = r.bytes / r.mean_seconds();
    table.rows.push_back(
        {bench.name, number(static_cast<double>(bench.bytes) / (1 << 30), "%.2f GiB"),
         number(static_cast<double>(bench.parameters) / 1e9, "%.2f B"), bench.device, r.test.name(),
         number(r.mean_rate(), "%.2f") + number(r.rate_deviation(), " ± %.2f"),
         r.bytes > 0 ? number(bytes / 1e9, "%.1f") : "",
         r.bytes > 0 ? number(100 * bytes / bench.bandwidth, "%.1f") : "",
         r.flops > 0 ? number(r.flops / r.mean_seconds() / 1e9, "%.0f") : ""});
  }
  return table;
}

Json to_json(const Bench& bench) {
  Json report = {{"model", bench.name},
                 {"bytes", bench.bytes},
                 {"parameters", bench.parameters},
                 {"backend", bench.device},
                 {"read_bytes_per_second", bench.bandwidth},
                 {"results", Json::array()}};
  for (const Result& r : bench.results) {
    Json row = {{"test", r.test.name()},
                {"kind", r.test.prompt ? "prefill" : "decode"},
                {"tokens", r.test.tokens},
                {"depth", r.test.depth},
                {"seconds", r.seconds},
                {"tokens_per_second", r.mean_rate()},
                {"tokens_per_second_deviation", r.rate_deviation()}};
    if (r.bytes > 0) {
      row["bytes_per_second"] = r.bytes / r.mean_seconds();
      row["share_of_read_bandwidth"] = r.bytes / r.mean_seconds() / bench.bandwidth;
    }
    if (r.flops > 0) row["flops_per_second"] = r.flops / r.mean_seconds();
    report["results"].push_back(row);
  }
  return report;
}

std::vector<Case> list_cases(const BenchFlags& flags) {
  std::vector<Case> cases;
  for (int64_t depth : flags.depths) {
    for (int64_t tokens : flags.prompts) {
      if (tokens > 0) cases.push_back({true, tokens, depth});
    }
    for (int64_t tokens : flags.counts) {
      if (tokens > 0) cases.push_back({false, tokens, depth});
    }
  }
  if (cases.empty()) fail(Exit::Usage, "nothing to measure: -p and -n are both 0");
  return cases;
}

Model open_or_make_model(const BenchFlags& flags, std::string& name) {
  if (flags.shape.empty() != flags.type.empty()) {
    fail(Exit::Usage, "--shape and --type belong together, as in --shape llama-3.2-1b --type q8_0");
  }
  if (!flags.shape.empty()) {
    if (!flags.model.model.empty()) fail(Exit::Usage, "give either -m or --shape, not both");
    name = flags.shape + " " + flags.type;
    return random_model(flags.shape, flags.type);
  }
  const OpenedModel opened = open_model(flags.model);
  name = std::filesystem::absolute(opened.path).lexically_normal().filename().string();
  if (name.empty()) name = opened.path.string();
  return opened.model;
}

int bench(BenchFlags& flags) {
  const std::vector<Case> cases = list_cases(flags);
  Bench report;
  const Model model = open_or_make_model(flags, report.name);
  int64_t longest = 0;
  for (const Case& test : cases) longest = std::max(longest, test.depth + test.tokens);
  RunOptions& options = flags.model.run;
  options.context = std::max(options.context, longest);
  const auto executor = cpu::make_executor(model, options);

  report.bytes = model.weights->bytes();
  for (const Tensor& tensor : model.weights->tensors()) {
    report.parameters += tensor.view.rows * tensor.view.cols;
  }
  report.device = executor->description();
  for (const Case& test : cases) {
    if (interrupted_by()) break;
    if (stderr_is_terminal()) std::fprintf(stderr, "\r%-24s", test.name().c_str());
    Result result = measure(*executor, test, flags.repetitions);
    if (!result.seconds.empty()) report.results.push_back(std::move(result));
  }
  if (stderr_is_terminal()) std::fprintf(stderr, "\r%-24s\r", "");
  if (report.results.empty()) return 128 + interrupted_by();
  report.bandwidth =
      cpu::measure_read_bandwidth(options.threads > 0 ? options.threads : cpu::available_threads());

  StandardOutput out;
  if (flags.json) {
    out.write(dump(to_json(report), 2) + "\n");
  } else if (flags.csv) {
    out.write(to_csv(to_table(report)));
  } else {
    out.write(flags.markdown ? to_markdown(to_table(report)) : to_text(to_table(report)));
    out.write(number(report.bandwidth / 1e9,
                     "\nread bandwidth of this machine with these threads: %.1f GB/s\n"));
  }
  return interrupted_by() ? 128 + interrupted_by() : 0;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) text += concat(text.empty() ? "" : " ", name);
  return text;
}

}  // namespace

void add_bench(CLI::App& program, Action& chosen) {
  CLI::App* command = add_command(
      program, "bench",
      "Measures speed: prompts of N tokens (pp) and N tokens one by one (tg), after a depth of "
      "others.",
      {"skald bench -m model.gguf", "skald bench --shape llama-3.2-1b --type q4_0 -p 128,512 -n 64",
       "skald bench -m model.gguf --json | jq '.results[].tokens_per_second'"});
  auto flags = std::make_shared<BenchFlags>();
  add_model_flag(*command, flags->model);
  command
      ->add_option("--shape", flags->shape,
                   "Instead: random weights. One of: " + joined(random_shapes()))
      ->type_name("NAME")
      ->group("Model");
  command->add_option("--type", flags->type, "Their format: " + joined(random_types()))
      ->type_name("TYPE")
      ->group("Model");
  auto list = [&](const char* names, std::vector<int64_t>& value, const char* description) {
    command->add_option(names, value, description)
        ->type_name("N,N")
        ->delimiter(',')
        ->check(in_range(0, int64_t{1} << 24))
        ->capture_default_str()
        ->group("Measure");
  };
  list("-p,--n-prompt", flags->prompts, "Prompt lengths; 0: none");
  list("-n,--n-gen", flags->counts, "Tokens one by one; 0: none");
  list("-d,--n-depth", flags->depths, "Tokens in the cache before");
  command->add_option("-r,--repetitions", flags->repetitions, "Times to repeat each")
      ->type_name("N")
      ->check(in_range(1, 10000))
      ->capture_default_str()
      ->group("Measure");
  add_run_flags(*command, flags->model);
  CLI::Option* json = command->add_flag("--json", flags->json, "One JSON object")->group("Output");
  CLI::Option* csv = command->add_flag("--csv", flags->csv, "CSV")->group("Output");
  command->add_flag("--markdown", flags->markdown, "A Markdown table")
      ->excludes(json)
      ->excludes(csv)
      ->group("Output");
  csv->excludes(json);
  command->callback([=, &chosen] { chosen = [=] { return bench(*flags); }; });
}

}  // namespace skald
