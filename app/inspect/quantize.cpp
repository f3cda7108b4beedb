// skald quantize: converts a model folder or a GGUF into a GGUF with other weight formats.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "app/files/atomic_file.h"
#include "app/files/claim.h"
#include "app/files/signals.h"
#include "app/inspect/quantize_plan.h"
#include "app/model/open.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/progress.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

struct QuantizeFlags : ModelName {
  std::string in, out, type, imatrix;
  std::vector<std::string> overrides;  // --tensor-type
  int threads = 0;
  bool requantize = false, force = false, dry_run = false, tensors = false, json = false;
};

// Bytes of a tensor that are converted at a time: Ctrl-C waits for a slice.
constexpr int64_t kSliceBytes = 8 << 20;

int64_t slice_rows(const MadeTensor& tensor) {
  const int64_t row = std::max(tensor.source.row_bytes, row_bytes(tensor.type, tensor.cols()));
  return std::clamp<int64_t>(kSliceBytes / row, 1, tensor.rows());
}

void check_other_file(const OpenedModel& opened, const fs::path& out) {
  std::error_code error;
  if (!fs::exists(out, error)) return;
  const auto same = [&](const fs::path& in) { return fs::equivalent(in, out, error); };
  bool any = same(opened.path);
  for (const Tensor& tensor : opened.model.weights->tensors()) any = any || same(tensor.file);
  if (any) {
    fail(Exit::Usage, printable(out.string()), ": this is the model itself; choose another file");
  }
}

// Returns false if interrupted.
bool write_tensors(const OpenedModel& opened, const QuantizePlan& plan, int threads,
                   AtomicFile& file) {
  const bool mapped = opened.model.weights->mapped();
  const std::vector<GgufHead::Place> places = plan.head.places();
  TensorMaker maker(threads);
  ByteProgress progress;
  int64_t done = 0;
  std::vector<std::byte> slice;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const MadeTensor& tensor = plan.tensors[i];
    const int64_t row = row_bytes(tensor.type, tensor.cols());
    const int64_t most = slice_rows(tensor);
    for (int64_t first = 0; first < tensor.rows(); first += most) {
      if (interrupted_by()) return false;
      const int64_t rows = std::min(most, tensor.rows() - first);
      slice.resize(static_cast<size_t>(rows * row));
      maker.make(tensor, first, rows, slice.data());
      file.write(places[i].offset + first * row, slice);
      if (mapped && tensor.values.empty()) tensor.drop_source(first, rows);
      done += rows * row;
      progress.show(done, plan.tensor_bytes(), tensor.name);
    }
  }
  return true;
}

// After -m or -hf, the only word is OUT.
void take_model(QuantizeFlags& flags) {
  if (flags.model.empty()) {
    flags.model = flags.in;
  } else if (flags.out.empty()) {
    flags.out = flags.in;
  } else {
    name_model(flags.model, flags.in);
  }
}

int quantize(QuantizeFlags& flags) {
  take_model(flags);
  if (flags.model.empty()) {
    fail(Exit::Usage, "no model given; usage: skald quantize IN OUT --type TYPE");
  }
  if (flags.out.empty() && !flags.dry_run) {
    fail(Exit::Usage, "no output file given; usage: skald quantize IN OUT --type TYPE");
  }
  if (flags.type.empty()) fail(Exit::Usage, "no --type given; add one, such as --type q4_k_m");
  QuantizeSettings settings;
  settings.mix = &find_quant_mix(flags.type);
  settings.requantize = flags.requantize;
  for (const std::string& text : flags.overrides) {
    settings.overrides.push_back(parse_override(text));
  }

  std::optional<ImportanceFile> importances;
  if (!flags.imatrix.empty()) {
    importances.emplace(flags.imatrix);
    settings.importances = &*importances;
  }

  const OpenedModel opened = open_model(find_model(flags));
  check_head(opened);  // a GGUF could not say that it has none
  const QuantizePlan plan = plan_quantize(opened, settings);
  for (const std::string& note : plan.notes) {
    std::fprintf(stderr, "skald: %s\n", printable(note, 1000).c_str());
  }
  const auto start = std::chrono::steady_clock::now();
  if (!flags.dry_run) {
    check_other_file(opened, flags.out);
    opened.model.weights->check_whole();
    const FileClaim claim(flags.out);
    AtomicFile file(flags.out,
                    {.mode = 0666, .replace = flags.force, .reserve = plan.head.file_bytes()});
    if (!write_tensors(opened, plan, flags.threads, file)) return 128 + interrupted_by();
    opened.model.weights->check_whole();  // the source did not change meanwhile
    // The head is written last, so that the file of a killed run cannot be read as a model.
    const std::string head = plan.head.text();
    file.write(0, std::as_bytes(std::span(head)));
    file.commit();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::string report = flags.json ? to_json(plan, !flags.dry_run) : to_text(plan, flags.tensors);
  if (!flags.json && !flags.dry_run) {
    char text[64];
    std::snprintf(text, sizeof text, ", in %.1f s\n", seconds.count());
    report.pop_back();
    report += text;
  }
  StandardOutput().write(report);
  return 0;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) text += concat(text.empty() ? "" : " ", name);
  return text;
}

}  // namespace

void add_quantize(Command& program) {
  Command& command = program.add_command(
      "quantize",
      "Converts a model into a GGUF with other weight formats. Reads a Hugging Face folder or a "
      "GGUF.\n"
      "The types are llama.cpp's mixes of formats, and llama.cpp reads the file. The model need "
      "not fit\n"
      "in memory. OUT appears when it is complete.",
      {"skald quantize folder/ model.Q4_K_M.gguf --type q4_k_m",
       "skald quantize model.F16.gguf model.Q5_0.gguf --type q5_0 --tensor-type ffn_down=q8_0",
       "skald quantize folder/ --type q4_0 --dry-run --json | jq .bytes"});
  auto flags = std::make_shared<QuantizeFlags>();
  command.word("in", "IN", flags->in).check(not_empty());
  command.word("out", "OUT", flags->out).check(not_empty());
  add_model_flag(command, *flags);
  const std::string help = "Convert to one of: " + joined(quant_mix_names());
  const std::vector<std::string_view> mixes = quant_mix_names();
  command.suggest(
      command.option("--type", flags->type, help).type_name("TYPE").group(kChangesOutput),
      {mixes.begin(), mixes.end()});
  command
      .option("--tensor-type", flags->overrides,
              "Use TYPE for tensors whose name contains a match of the regular expression "
              "PATTERN, as in attn_v=q6_k; may be repeated, the first match counts")
      .type_name("PATTERN=TYPE")
      .repeatable()
      .group(kChangesOutput);
  command
      .option("--imatrix", flags->imatrix,
              "Importances of the weights' columns, from skald imatrix or llama-imatrix: errors in "
              "important columns become smaller")
      .type_name("FILE")
      .check(not_empty())
      .group(kChangesOutput);
  command.flag("--requantize", flags->requantize, "Allow converting quantized weights")
      .group(kChangesOutput);
  command.option("-t,--threads", flags->threads, "CPU threads; 0: all available")
      .type_name("N")
      .check(in_range(0, kMostThreads))
      .show_default()
      .group(kChangesSpeed);
  command.flag("--force", flags->force, "Replace OUT if it exists").group("Output");
  command.flag("--dry-run", flags->dry_run, "Report only, write nothing").group("Output");
  command.flag("--tensors", flags->tensors, "List every tensor").group("Output");
  command.flag("--json", flags->json, "Print one JSON object").group("Output");
  command.action([=] { return quantize(*flags); });
}

}  // namespace skald
