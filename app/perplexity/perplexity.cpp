// skald perplexity: measures how well a model predicts a text, by a named protocol, and how much it
// differs from a base model.
#include <cstdio>
#include <filesystem>

#include "app/files/json.h"
#include "app/files/output_file.h"
#include "app/files/signals.h"
#include "app/perplexity/job.h"
#include "app/perplexity/log.h"
#include "app/perplexity/plot.h"
#include "app/perplexity/report.h"
#include "app/perplexity/run.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/progress.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"

namespace skald {
namespace {

// The optional files of a run: --jsonl, --tokens, --save-logits or --save-base.
class Outputs {
 public:
  Outputs(const PplFlags& flags, PplJob& job) : tokenizer_(job.tokenizer()) {
    if (!flags.jsonl.empty()) jsonl_.emplace(flags.jsonl, Existing::Replace);
    if (!flags.tokens.empty()) tokens_.emplace(flags.tokens, Existing::Replace);
    if (jsonl_) jsonl_->append(record_line(job.heading()));
    const int64_t vocab = job.executor().program().vocab();
    if (!flags.save_logits.empty()) {
      if (job.range().first != 0) {
        fail(Exit::Usage, "--save-logits: llama.cpp's format begins with the first chunk; give ",
             "--chunks 0:N, or use --save-base");
      }
      save_ = write_llama_logits(flags.save_logits, job.settings().context, vocab, job.ids());
    } else if (!flags.save_base.empty()) {
      save_ = write_compact_base(flags.save_base, job.heading(),
                                 {job.range().first, job.range().last, vocab},
                                 static_cast<int>(flags.base_top));
    }
  }

  bool wants_tokens() const { return tokens_.has_value(); }
  BaseWriter* save() const { return save_.get(); }

  void add(const PplToken& token) {
    Json json = {{"chunk", token.chunk},
                 {"token", token.place},
                 {"id", token.id},
                 {"text", std::string(tokenizer_.piece_bytes(token.id))},
                 {"logprob", token.score.logprob},
                 {"rank", token.score.rank},
                 {"entropy", token.score.entropy}};
    if (token.comparison) {
      json["base_logprob"] = token.comparison->row.base.logprob;
      json["divergence"] = token.comparison->row.divergence;
    }
    tokens_->write(dump(json) + "\n");
  }

  void add(const PplChunk& chunk) {
    if (jsonl_) jsonl_->append(record_line(chunk));
  }

  void finish() {
    if (jsonl_) jsonl_->finish();
    if (tokens_) tokens_->finish();
    if (save_) save_->finish();
  }

 private:
  const Tokenizer& tokenizer_;
  std::optional<OutputFile> jsonl_, tokens_;
  std::unique_ptr<BaseWriter> save_;
};

void print_result(const PplFlags& flags, const PplTotal& total) {
  if (!flags.plot.empty()) {
    OutputFile plot(flags.plot, Existing::Replace);
    plot.write(plot_svg(total));
    plot.finish();
  }
  StandardOutput out;
  if (flags.llama_format) {
    out.write(llama_final(total));
  } else {
    out.write(flags.json ? dump(to_json(total), 2) + "\n" : to_text(total));
  }
}

// Prints llama-perplexity's first line.
void print_llama_head(const PplJob& job, const Executor& executor) {
  std::fprintf(stderr,
               "perplexity: calculating perplexity over %lld chunks, n_ctx=%lld, batch_size=%lld, "
               "n_seq=%d\n",
               static_cast<long long>(job.range().last - job.range().first),
               static_cast<long long>(job.settings().context),
               static_cast<long long>(executor.max_rows()), executor.plan().sequences);
}

// What this run does beside the chunks that a checkpoint already had.
struct RunPace {
  int64_t chunks = 0, done = 0, tokens = 0;
};

// Returns "[7/20] perplexity 8.1234 ± 0.0567, 3 min 12 s left, 5120 tokens/s".
std::string progress_text(const PplTotal& total, int64_t chunks, const RunPace& pace,
                          double seconds) {
  const Estimate now = total.sums().perplexity();
  char head[96], speed[32];
  std::snprintf(head, sizeof head, "[%lld/%lld] perplexity %.4f ± %.4f",
                static_cast<long long>(total.chunks()), static_cast<long long>(chunks), now.value,
                now.error);
  std::snprintf(speed, sizeof speed, ", %.0f tokens/s", static_cast<double>(pace.tokens) / seconds);
  return head + time_left_text(seconds, pace.done, pace.chunks) + speed;
}

int compute(const PplFlags& flags) {
  const std::shared_ptr<FileClaim> claim = claim_file(flags.checkpoint);  // before a long reading
  Progress reading(progress_style());
  PplJob job(flags, reading);
  const auto [first, last] = job.range();
  PplTotal total(job.heading());
  Outputs outputs(flags, job);
  std::optional<PplCheckpoint> checkpoint;
  StandardOutput out;
  if (flags.llama_format) print_llama_head(job, job.executor());
  if (!flags.checkpoint.empty()) {
    checkpoint.emplace(flags.checkpoint, claim, total, job.range(), [&](const PplChunk& chunk) {
      outputs.add(chunk);
      if (flags.llama_format) out.write(llama_running(total));
    });
  }

  using Style = Progress::Style;
  Progress progress(flags.llama_format ? Style::Quiet : progress_style());
  const auto chunks = last - first;
  RunPace pace{.chunks = chunks - total.chunks()};
  PplRun run;
  run.devices = job.devices();
  run.chunks = &job.chunks();
  run.first = first + total.chunks();
  run.last = last;
  run.base_file = job.base_file();
  if (run.base_file) run.base_row = job.base_row(run.first);
  run.save = outputs.save();
  if (outputs.wants_tokens()) run.on_token = [&](const PplToken& token) { outputs.add(token); };
  run.on_chunk = [&](const PplChunk& chunk) {
    total.add(chunk);
    outputs.add(chunk);
    if (checkpoint) checkpoint->add(chunk);
    if (flags.llama_format) out.write(llama_running(total));
    pace.done += 1;
    pace.tokens += chunk.sums.tokens;
    if (progress.is_due() && total.sums().tokens > 0) {
      progress.show(progress_text(total, chunks, pace, progress.seconds()));
    }
  };
  run.keep_going = [] { return !interrupted_by(); };
  const bool finished = run_perplexity(run);
  take_time_to_end();
  progress.clear();
  if (!finished) {
    std::fprintf(stderr, "skald: stopped after %lld of %s%s\n",
                 static_cast<long long>(total.chunks()), counted(last - first, "chunk").c_str(),
                 checkpoint ? "; run the same command again to continue" : "");
    return 128 + interrupted_by();
  }
  if (total.sums().tokens == 0) {
    fail(Exit::Failed, "the text is too short: the protocol scores none of its tokens");
  }
  outputs.finish();
  print_result(flags, total);
  return 0;
}

int perplexity(PplFlags& flags) {
  name_model(flags.model.model, flags.model_word);
  check_flags(flags);
  if (const auto code = serve_other_rank(flags.model)) return *code;
  if (flags.merge.empty()) return compute(flags);
  print_result(flags, merge_ppl_logs(flags.merge));
  return 0;
}

Option file_option(Command& command, const char* name, std::string& value,
                   const char* description) {
  return command.option(name, value, description)
      .type_name("FILE")
      .check(not_empty())
      .group("Output");
}

void add_output_flags(Command& command, PplFlags& flags) {
  command.flag("--json", flags.json, "Print one JSON object").group("Output");
  command.flag("--llama-format", flags.llama_format, "Print the lines of llama-perplexity")
      .group("Output");
  file_option(command, "--jsonl", flags.jsonl, "Write each chunk's sums, a line per chunk");
  file_option(command, "--tokens", flags.tokens,
              "Write each token's id, text, logprob, rank and entropy");
  file_option(command, "--plot", flags.plot, "Draw each chunk's and the running perplexity as SVG");
  file_option(command, "--checkpoint", flags.checkpoint,
              "Keep each chunk's sums in FILE; after a stop, continue from it");
  file_option(command, "--save-logits", flags.save_logits,
              "Write a base file in llama.cpp's format");
  file_option(command, "--save-base", flags.save_base, "Write a base file in the compact format");
  command.option("--base-top", flags.base_top, "Keep the N most probable tokens in --save-base")
      .type_name("N")
      .check(in_range(1, 1 << 20))
      .show_default()
      .group("Output");
}

}  // namespace

void add_perplexity(Command& program) {
  Command& command = program.add_command(
      "perplexity",
      "Measures how well a model predicts a text, by a named protocol. With --base, also measures\n"
      "how much it differs from a base model. app/perplexity/README.md explains the protocols.",
      {"skald perplexity model.gguf -f wiki.test.raw",
       "skald perplexity model/ -f wiki.test.raw --protocol gptq:2048 --json",
       "skald perplexity q4.gguf --base f16.gguf -f text.txt --jsonl chunks.jsonl",
       "skald perplexity model.gguf -f text.txt --chunks 0:300 --checkpoint a.jsonl",
       "skald perplexity --merge a.jsonl b.jsonl"});
  auto flags = std::make_shared<PplFlags>();
  command.word("MODEL", "[MODEL]", flags->model_word).check(not_empty());
  add_model_flag(command, flags->model);
  command.option("-f,--file", flags->files, "Read the text from FILE; -: stdin")
      .type_name("FILE")
      .repeatable()
      .check(not_empty())
      .group("Measure");
  const Option protocol =
      command
          .option("--protocol", flags->protocol,
                  "Measure by llama.cpp[:CTX], hf:CTX:STRIDE, gptq:CTX or doc[:CTX]")
          .type_name("NAME")
          .show_default()
          .group("Measure");
  command.suggest(protocol, {"llama.cpp", "hf:2048:512", "gptq:2048", "doc"});
  command.option("--chunks", flags->chunks, "Measure only chunks A to B-1, or the first N")
      .type_name("A:B")
      .check(not_empty())
      .group("Measure");
  command.option("--base", flags->base, "Compare with this model or base file")
      .type_name("PATH")
      .check(not_empty())
      .group("Measure");
  command.option("--merge", flags->merge, "Merge the --checkpoint or --jsonl files of parts")
      .type_name("FILES")
      .check(not_empty())
      .group("Measure");
  add_run_flags(command, flags->model);
  add_devices_flags(command, flags->model.device, "Share the chunks among GPUs: 0,1,2");
  add_device_flag(command, flags->model);
  add_rank_flag(command, flags->model.device);
  add_output_flags(command, *flags);
  command.action([=] { return perplexity(*flags); });
}

}  // namespace skald
