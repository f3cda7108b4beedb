#include "app/batch/flags.h"

#include "app/files/json.h"
#include "app/model/cache_types.h"
#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

void add_file_flags(Command& command, BatchFlags& flags) {
  command.flag("--text", flags.text, "Read each line as a prompt, not as JSON").group(kJobFiles);
  command.flag("--plain", flags.plain, "Write plain results instead of OpenAI's form")
      .group(kJobFiles);
  command
      .flag("--unordered", flags.unordered,
            "Write each result when it is finished, not in the order of the input")
      .group(kJobFiles);
  command
      .flag("--dry-run", flags.dry_run,
            "Check all, estimate time, memory and GPU hours; compute nothing")
      .group(kJobFiles);
}

void add_output_flags(Command& command, BatchFlags& flags) {
  command
      .option("-n,--n-predict", flags.max_tokens,
              "Most new tokens where a line says nothing; -1: to the end")
      .type_name("N")
      .check(in_range(-1, int64_t{1} << 40))
      .show_default()
      .group(kChangesOutput);
  add_sampling_flags(command, flags.sampling);
  command.flag("--ignore-eos", flags.ignore_eos, "Go on after the end of the text")
      .group(kChangesOutput);
  command.flag("--special", flags.special, "Read control tokens such as </s> in prompts")
      .group(kChangesOutput);
  command
      .flag("--separate-thinking", flags.separate_thinking,
            "Write thinking between tags as reasoning_content, not in content")
      .group(kChangesOutput);
  const Option chat_template = command
                                   .option("--chat-template", flags.chat_template,
                                           "For messages: a file or a name; the model's own")
                                   .type_name("FILE|NAME")
                                   .check(not_empty())
                                   .group(kChangesOutput);
  suggest_templates(command, chat_template);
  add_variable_flags(command, flags.chat);
  add_effort_flag(command, flags.chat);
  command.suggest(
      command
          .option("--on-overflow", flags.on_overflow,
                  "A prompt longer than the context: error, truncate-left, skip [error]")
          .type_name("WHAT")
          .check([](const std::string& what) {
            const bool known = what == "error" || what == "truncate-left" || what == "skip";
            return known ? "" : concat("'", what, "': expected error, truncate-left or skip");
          })
          .group(kChangesOutput),
      {"error", "truncate-left", "skip"});
}

void add_speed_flags(Command& command, BatchFlags& flags) {
  command.option("--max-seqs", flags.sequences, "Texts at a time; 0: by the device")
      .type_name("N")
      .check(in_range(0, kMostSequences))
      .show_default()
      .group(kChangesSpeed);
  command
      .option("--max-tokens-per-step", flags.model.run.rows,
              "Tokens of all texts in one step; 0: by the device")
      .type_name("N")
      .check(in_range(0, kMostRows))
      .show_default()
      .group(kChangesSpeed);
  add_batch_guess_flags(command, flags.guess);
  add_devices_flags(command, flags.model.device, "Several GPUs, each with the whole model: 0,1,2");
  command
      .flag("--reproducible", flags.reproducible,
            "Results that do not depend on their neighbours, to the last bit")
      .group(kChangesOutput);
}

}  // namespace

OnOverflow BatchFlags::overflow() const {
  if (on_overflow == "truncate-left") return OnOverflow::TruncateLeft;
  return on_overflow == "skip" ? OnOverflow::Skip : OnOverflow::Error;
}

void add_batch_flags(Command& command, BatchFlags& flags) {
  add_job_flags(command, flags, "Read requests from here, a JSON object on each line; -: stdin");
  add_file_flags(command, flags);
  add_output_flags(command, flags);
  flags.model.lora.names = true;
  add_run_flags(command, flags.model);
  add_embed_flags(command, flags.embed, "Lines for vectors (/v1/embeddings, /v1/rerank)");
  add_speed_flags(command, flags);
  add_device_flag(command, flags.model);
  add_rank_flag(command, flags.model.device);
}

Json batch_settings(const BatchFlags& flags, const SamplingParams& params) {
  Json settings = {{"max_tokens", flags.max_tokens}};
  settings.update(sampling_json(params));
  settings.update(Json{{"ignore_eos", flags.ignore_eos},
                       {"special", flags.special},
                       {"on_overflow", flags.on_overflow},
                       {"text", flags.text},
                       {"plain", flags.plain},
                       {"type", flags.model.type},
                       {"exact", flags.model.run.exact},
                       {"reproducible", flags.reproducible}});
  // Not written without the flag: earlier versions wrote outputs that --resume still continues.
  add_cache_types(flags.model.run.cache_types, settings);
  if (flags.separate_thinking) settings["separate_thinking"] = true;
  if (!flags.chat.variables.empty()) settings["chat_template_kwargs"] = flags.chat.variables;
  if (!flags.chat.effort.empty()) settings["reasoning_effort"] = flags.chat.effort;
  return settings;
}

}  // namespace skald
