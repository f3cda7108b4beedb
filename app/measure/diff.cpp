// skald diff: runs the same tokens with two backends or settings and compares every buffer after
// every op.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "app/files/input.h"
#include "app/files/json.h"
#include "app/model/device.h"
#include "app/model/loading.h"
#include "app/model/op_label.h"
#include "app/model/open.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/table.h"
#include "engine/base/error.h"
#include "engine/base/number_text.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

struct DiffFlags {
  ModelFlags model;
  std::string model_word;  // [MODEL]
  std::string a = "reference", b = "cpu", prompt = "Once upon a time";
  double tolerance = -1;  // negative: usual_tolerance()
  bool all = false, json = false;
};

// "cpu", "reference,exact", "cpu,threads=1,rows=3", "cuda:1,rows=1", "cpu,tp=2"
struct Setting {
  cpu::KernelSet kernels = cpu::KernelSet::Fast;
  Device device;
  RunOptions options;
};

Setting parse_setting(const std::string& text, const RunOptions& defaults) {
  Setting setting{cpu::KernelSet::Fast, {}, defaults};
  auto count = [&](std::string_view word, std::string_view key, auto& value, int64_t most) {
    if (!word.starts_with(key)) return false;
    word.remove_prefix(key.size());
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    return whole && value > 0 && value <= most;
  };
  std::string_view rest = text;
  bool first = true;
  bool more = true;
  while (more) {
    const size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    if (first && word == "reference") {
      setting.kernels = cpu::KernelSet::Reference;
    } else if (first && (word == "cuda" || word.starts_with("cuda:"))) {
      setting.device = parse_device({std::string(word)});
    } else if (first ? word != "cpu"
                     : !(word == "exact" ||
                         count(word, "threads=", setting.options.threads, kMostThreads) ||
                         count(word, "rows=", setting.options.rows, kMostRows) ||
                         count(word, "tp=", setting.device.ranks, kMostRanks))) {
      fail(Exit::Usage, "setting '", printable(text), "': '", printable(word),
           first ? "': expected cpu, reference, cuda or cuda:N first"
                 : "': expected exact, threads=N, rows=N or tp=N after a comma");
    }
    if (word == "exact") setting.options.exact = true;
    first = false;
  }
  return setting;
}

struct Recorded {
  std::string name;
  int64_t cols = 0;
  std::vector<float> values;  // [rows, cols], step after step
};

std::unique_ptr<Executor> make_side(Model model, const Setting& setting) {
  const int ranks = setting.device.ranks;
  model.shard = {0, ranks};
  check_divisible(model);
  if (setting.device.cuda) return make_executor(model, setting.options, setting.device);
  model = make_weights(model, setting.options.threads);
  return ranks > 1 ? cpu::make_group(model, setting.options, ranks, setting.kernels)
                   : cpu::make_executor(model, setting.options, setting.kernels);
}

// Records every op's output for the whole prompt, indexed like Program::ops. If a GPU runs several
// ops as one kernel, only the last op has values; of several ranks, only ops whose output each has
// whole.
std::vector<Recorded> record(const Model& model, const Setting& setting,
                             std::span<const int32_t> tokens) {
  const auto executor = make_side(model, setting);
  std::vector<Recorded> all(executor->program().ops.size());
  executor->observe([&](const OpOutput& output) {
    Recorded& one = all[output.op];
    one.name = output.name;
    one.cols = output.cols;
    one.values.insert(one.values.end(), output.values.begin(), output.values.end());
  });
  Sequence sequence = executor->new_sequence();
  while (!tokens.empty()) {
    const auto part =
        tokens.first(std::min(tokens.size(), static_cast<size_t>(executor->max_rows())));
    tokens = tokens.subspan(part.size());
    const SeqRows step{&sequence, part, tokens.empty() ? Want::LastRow : Want::Nothing};
    if (executor->run({&step, 1}) > 0) executor->logits(0);
  }
  return all;
}

struct Difference {
  double relative;   // ‖b − a‖ / ‖a‖
  double largest;    // |b − a|
  int64_t row, col;  // of the largest difference
  bool finite;
};

Difference compare(const Recorded& a, const Recorded& b) {
  check(a.values.size() == b.values.size(), "both backends run the same list");
  double difference = 0, reference = 0;
  Difference result{0, 0, 0, 0, true};
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double delta = double{b.values[i]} - a.values[i];
    difference += delta * delta;
    reference += double{a.values[i]} * a.values[i];
    if (std::fabs(delta) > result.largest || (std::isnan(delta) && result.finite)) {
      result.finite = result.finite && std::isfinite(delta);
      result.largest = std::fabs(delta);
      result.row = static_cast<int64_t>(i) / a.cols;
      result.col = static_cast<int64_t>(i) % a.cols;
    }
  }
  result.relative = difference == 0 ? 0 : std::sqrt(difference / reference);
  return result;
}

// The largest difference that rounding alone explains: float16 in the KV cache, int8 activations
// for block formats on the CPU, activations in the weights' type on a GPU.
double usual_tolerance(const Setting& a, const Setting& b, const Program& program) {
  if (a.device.cuda != b.device.cuda) {
    const auto has = [&](DType type) {
      return std::any_of(program.weights.begin(), program.weights.end(),
                         [&](const Weight& weight) { return weight.view.type == type; });
    };
    // A GPU multiplies blocks of floats by activations in bf16.
    const bool floats =
        std::any_of(program.weights.begin(), program.weights.end(), [](const Weight& weight) {
          return has_float_weights(weight.view.type) && info(weight.view.type).block_elems > 1;
        });
    return floats || has(DType::BF16) ? 0.05 : has(DType::F16) ? 0.01 : 1e-3;
  }
  const auto rounds = [](const Setting& setting) {
    return setting.kernels == cpu::KernelSet::Fast && !setting.options.exact;
  };
  const bool blocks =
      std::any_of(program.weights.begin(), program.weights.end(),
                  [](const Weight& weight) { return !has_float_weights(weight.view.type); });
  // The sums of ranks differ in their last bits, which may round an activation to its neighbour.
  const bool other_sums = a.device.ranks != b.device.ranks && (rounds(a) || rounds(b));
  return blocks && (rounds(a) != rounds(b) || other_sums) ? 0.05 : 1e-3;
}

int diff(DiffFlags& flags) {
  name_model(flags.model.model, flags.model_word);
  RunOptions defaults = flags.model.run;
  if (defaults.rows == 0) defaults.rows = RunOptions{}.rows;
  Setting setting_a = parse_setting(flags.a, defaults);
  Setting setting_b = parse_setting(flags.b, defaults);
  const OpenedModel opened = open_model(flags.model);
  check_context(flags.model, opened.model.config);
  const auto tokens = open_tokenizer(opened).tokenizer->encode(flags.prompt);
  if (tokens.empty())
    fail(Exit::Usage, "the prompt is empty, and this model has no begin token; give a prompt");
  for (Setting* setting : {&setting_a, &setting_b}) {
    int64_t& context = setting->options.context;
    if (context == 0) {
      context = std::min(static_cast<int64_t>(tokens.size()), opened.model.config.context);
    }
  }
  const std::vector<Recorded> a = record(opened.model, setting_a, tokens);
  const std::vector<Recorded> b = record(opened.model, setting_b, tokens);

  const Program program = opened.model.program();
  const double tolerance =
      flags.tolerance >= 0 ? flags.tolerance : usual_tolerance(setting_a, setting_b, program);
  Table table{{"op", "name", "buffer", "relative", "largest", "at"}, {}};
  Json rows = Json::array();
  std::string first;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].values.empty() || b[i].values.empty()) continue;
    const Difference d = compare(a[i], b[i]);
    const bool bad = !(d.relative <= tolerance);  // NaN is bad too
    const std::string label = op_label(program, i);
    if (bad && first.empty()) {
      first = concat("op ", i, ", ", label, ": buffer '", a[i].name, "' differs by ",
                     number_text(d.relative, "%.2e"), " (largest ", number_text(d.largest, "%.2e"),
                     " at row ", d.row, ", column ", d.col, ")");
    }
    if (flags.json) {
      rows.push_back({{"op", i},
                      {"name", label},
                      {"buffer", a[i].name},
                      {"relative", d.relative},
                      {"largest", d.largest},
                      {"row", d.row},
                      {"col", d.col},
                      {"beyond_tolerance", bad}});
    }
    if (flags.all || bad || i + 1 == a.size()) {
      table.rows.push_back({concat(i), label, a[i].name, number_text(d.relative, "%.2e"),
                            number_text(d.largest, "%.2e"), concat(d.row, ",", d.col)});
    }
  }
  StandardOutput out;
  if (flags.json) {
    out.write(dump({{"a", flags.a},
                    {"b", flags.b},
                    {"tokens", tokens.size()},
                    {"tolerance", tolerance},
                    {"first", first.empty() ? Json(nullptr) : Json(first)},
                    {"ops", rows}},
                   2) +
              "\n");
  } else {
    out.write(to_text(table));
    out.write(first.empty() ? concat("\nno buffer differs by more than ",
                                     number_text(tolerance, "%.2e"), "\n")
                            : concat("\nfirst difference: ", first, "\n"));
  }
  return static_cast<int>(first.empty() ? Exit::Done : Exit::Failed);
}

}  // namespace

void add_diff(Command& program) {
  Command& command = program.add_command(
      "diff",
      "Compares two backends or settings op by op. Runs a prompt with both, compares every buffer\n"
      "after every op, and names the first op beyond the tolerance. Exit code 1: there is one.",
      {"skald diff model.gguf", "skald diff -a cpu,threads=1 -b cpu,rows=3 --tolerance 0",
       "skald diff folder/ -a cpu -b cuda --all", "skald diff folder/ -a cuda -b cuda,tp=2"});
  auto flags = std::make_shared<DiffFlags>();
  command.word("MODEL", "[MODEL]", flags->model_word).check(not_empty());
  add_model_flag(command, flags->model);
  command.option("-p,--prompt", flags->prompt, "Run this prompt")
      .type_name("TEXT")
      .show_default()
      .group("Compare");
  command
      .option("-a", flags->a,
              "First side: cpu, reference, cuda or cuda:N, then ,exact ,threads=N ,rows=N ,tp=N")
      .type_name("SETTING")
      .show_default()
      .group("Compare");
  command.option("-b", flags->b, "Second side, written like -a")
      .type_name("SETTING")
      .show_default()
      .group("Compare");
  command
      .option("--tolerance", flags->tolerance,
              "Allow a relative difference of X; 0: bit-equal [0.001; 0.05 if only one side "
              "rounds activations to int8; by weight type if one side is a GPU]")
      .type_name("X")
      .check(number_where([](double x) { return x >= 0; }, "a number, 0 or more"))
      .group("Compare");
  add_run_flags(command, flags->model);
  command.flag("--all", flags->all, "Show every op, also those within the tolerance")
      .group("Output");
  command.flag("--json", flags->json, "Print every op as one JSON object").group("Output");
  command.action([=] { return diff(*flags); });
}

}  // namespace skald
