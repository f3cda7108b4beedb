// skald imatrix: computes a text on the CPU and writes how much each column of each weight matrix
// matters, for skald quantize --imatrix and llama-quantize --imatrix.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "app/files/atomic_file.h"
#include "app/files/claim.h"
#include "app/files/signals.h"
#include "app/files/text_file.h"
#include "app/model/loading.h"
#include "app/model/open.h"
#include "app/perplexity/token_stream.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/progress.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/convert/importance_sums.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

struct ImatrixFlags {
  ModelFlags model;
  std::string model_word, text, out;
  int64_t chunk = 512, chunks = 0;
};

// Rows of a step: Ctrl-C waits for a step.
constexpr int64_t kStepRows = 128;

// Computes a chunk from an empty context. Returns false if interrupted.
bool compute_chunk(Executor& executor, std::span<const int32_t> tokens) {
  Sequence sequence(executor.pages());
  while (!tokens.empty()) {
    if (interrupted_by()) return false;
    const size_t count = std::min(tokens.size(), static_cast<size_t>(executor.max_rows()));
    const SeqRows rows{&sequence, tokens.first(count), Want::Nothing};
    executor.run({&rows, 1});
    tokens = tokens.subspan(count);
  }
  return true;
}

int imatrix(ImatrixFlags& flags) {
  name_model(flags.model.model, flags.model_word);
  if (flags.text.empty()) fail(Exit::Usage, "no text given; add one, such as -f text.txt");
  if (flags.out.empty()) fail(Exit::Usage, "no output file given; add one, such as -o a.gguf");
  const FileClaim claim(flags.out);
  check_writable(flags.out);
  const OpenedModel opened = open_model(flags.model);
  flags.model.run.context = flags.chunk;
  check_context(flags.model, opened.model.config);
  const ModelTokenizer tokenizer = open_tokenizer(opened);
  const TextFile file(flags.text);
  const TokenStream text(file, *tokenizer.tokenizer, {.drop_last_newline = true},
                         [](int64_t) { return !interrupted_by(); });
  const int64_t whole = text.count() / flags.chunk;
  if (whole == 0) {
    fail(Exit::Usage, file.name(), ": has ", text.count(), " tokens, fewer than a chunk of ",
         flags.chunk, "; give a longer text or a smaller --chunk");
  }
  const int64_t chunks = flags.chunks > 0 ? std::min(flags.chunks, whole) : whole;

  ImportanceSums sums(opened);
  RunOptions options = flags.model.run;
  options.rows = std::min(kStepRows, flags.chunk);
  const Model model = make_weights(opened.model, options.threads);
  const auto executor = cpu::make_observed_executor(model, options, sums);
  const SpecialTokens& special = tokenizer.tokenizer->special();
  Progress progress(progress_style());
  std::vector<int32_t> tokens(static_cast<size_t>(flags.chunk));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    text.read(chunk * flags.chunk, tokens);
    if (special.add_bos) tokens[0] = special.bos;  // as llama-imatrix
    if (!compute_chunk(*executor, tokens)) return 128 + interrupted_by();
    if (progress.is_due()) {
      progress.show(concat("[", chunk + 1, "/", chunks, "] chunks",
                           time_left_text(progress.seconds(), chunk + 1, chunks)));
    }
  }
  progress.clear();
  const std::string name = flags.text == "-" ? "stdin" : fs::path(flags.text).filename().string();
  AtomicFile out(flags.out, {.mode = 0666});
  out.write(sums.file({name, flags.chunk, chunks}));
  if (interrupted_by()) return 128 + interrupted_by();
  out.commit();
  if (sums.unseen_experts() > 0) {
    std::fprintf(stderr,
                 "skald: the text chose no row for %lld experts' matrices; their weights count as "
                 "equally important\n",
                 static_cast<long long>(sums.unseen_experts()));
  }
  StandardOutput().write(concat("importances of ", counted(sums.matrices(), "tensor"), " from ",
                                counted(chunks, "chunk"), " of ", flags.chunk, " tokens\n"));
  return 0;
}

}  // namespace

void add_imatrix(Command& program) {
  Command& command = program.add_command(
      "imatrix",
      "Computes a text on the CPU and writes an importance matrix: how large the inputs of each "
      "column\n"
      "of the weights are. skald quantize --imatrix and llama-quantize make better files with it.",
      {"skald imatrix model.F16.gguf -f text.txt -o imatrix.gguf",
       "skald imatrix folder/ -f text.txt -o imatrix.gguf --chunks 100",
       "skald quantize folder/ model.Q4_K_M.gguf --type q4_k_m --imatrix imatrix.gguf"});
  auto flags = std::make_shared<ImatrixFlags>();
  command.word("MODEL", "[MODEL]", flags->model_word).check(not_empty());
  add_model_flag(command, flags->model);
  command.option("-f,--file", flags->text, "Read the text from FILE; -: stdin")
      .type_name("FILE")
      .check(not_empty())
      .group("Measure");
  command.option("-c,--chunk", flags->chunk, "Compute the text in chunks of N tokens")
      .type_name("N")
      .check(in_range(1, 1 << 20))
      .show_default()
      .group("Measure");
  command.option("--chunks", flags->chunks, "Compute only the first N chunks; 0: all")
      .type_name("N")
      .check(in_range(0, 1 << 30))
      .show_default()
      .group("Measure");
  command.option("-t,--threads", flags->model.run.threads, "CPU threads; 0: all available")
      .type_name("N")
      .check(in_range(0, kMostThreads))
      .show_default()
      .group(kChangesSpeed);
  command.option("-o,--out", flags->out, "Write the importances to FILE, a GGUF")
      .type_name("FILE")
      .check(not_empty())
      .group("Output");
  command.action([=] { return imatrix(*flags); });
}

}  // namespace skald
