// skald pull: brings a model from the hub into Hugging Face's cache.
#include <cctype>
#include <cstdio>
#include <memory>

#include "app/hub/pull.h"
#include "app/hub/reference.h"
#include "app/hub/text.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"
#include "models/convert/quant_mix.h"
#include "models/open.h"
#include "models/text/chat_templates.h"

namespace skald {
namespace {

struct PullFlags {
  std::string name, type, revision;
  bool yes = false, offline = false;
};

HubReference reference_of(const PullFlags& flags) {
  if (flags.name.empty()) {
    fail(Exit::Usage,
         "no model given; usage: skald pull NAME[:TYPE], as in skald pull llama3.2:1b");
  }
  HubReference reference = remote_reference(flags.name);
  if (!flags.type.empty()) {
    if (!reference.type.empty()) {
      fail(Exit::Usage, "the type is given twice: '", printable(flags.name), "' and --type ",
           printable(flags.type), "; give it once");
    }
    reference.type = upper(flags.type);
  }
  if (!flags.revision.empty()) {
    if (!reference.revision.empty()) {
      fail(Exit::Usage, "the revision is given twice: '", printable(flags.name),
           "' and --revision ", printable(flags.revision), "; give it once");
    }
    reference.revision = flags.revision;
  }
  return reference;
}

int pull_model(const PullFlags& flags) {
  const HubReference reference = reference_of(flags);
  HubSettings settings = hub_settings();
  settings.offline = settings.offline || flags.offline;
  const PulledModel pulled = pull(settings, reference, {flags.yes});
  const std::string name = printable(pulled.name);
  OpenedModel opened;
  try {
    opened = open_model(pulled.path);
  } catch (const Error& error) {
    fail(error.code(), "pulled, but cannot be used: ", error.what(), "; to remove it: skald rm ",
         name);
  }
  const bool chats = !find_chat_templates(pulled.path).empty();
  std::fprintf(stderr, "skald: %s is %s: %s, %s, %lld tokens of context; try: skald %s %s%s\n",
               name.c_str(), pulled.fetched > 0 ? "here" : "already here",
               std::string(opened.family).c_str(), size_text(pulled.bytes).c_str(),
               static_cast<long long>(opened.model.config.context), chats ? "chat" : "run",
               name.c_str(), chats ? "" : " \"Once upon a time\"");
  StandardOutput().write(pulled.path.string() + "\n");
  return 0;
}

}  // namespace

void add_pull(Command& program) {
  Command& command = program.add_command(
      "pull",
      "Downloads a model from Hugging Face's hub. It comes into Hugging Face's cache, where -m "
      "finds "
      "it by\n"
      "NAME: OWNER/NAME or a short name such as llama3.2, qwen3:8b, gemma3 or gpt-oss. TYPE picks "
      "one "
      "of\n"
      "several GGUF files [Q4_K_M, or the nearest that is there]. An interrupted download goes on "
      "where it\n"
      "ended. Prints the path.",
      {"skald pull llama3.2:1b", "skald pull Qwen/Qwen3-8B-GGUF:Q8_0",
       "skald pull -y Qwen/Qwen2.5-7B-Instruct", "HF_TOKEN=hf_… skald pull google/gemma-3-4b-it"});
  auto flags = std::make_shared<PullFlags>();
  const std::vector<std::string_view> names = short_names(), types = quant_mix_names();
  command.suggest(command.word("name", "NAME[:TYPE]", flags->name).check(not_empty()),
                  {names.begin(), names.end()});
  command.suggest(
      command.option("--type", flags->type, "Same as :TYPE, the type of a GGUF file, such as q8_0")
          .type_name("TYPE")
          .check(not_empty())
          .group("Model"),
      {types.begin(), types.end()});
  command.option("--revision", flags->revision, "Take this branch, tag or commit [main]")
      .type_name("REVISION")
      .check(not_empty())
      .group("Model");
  command
      .flag("-y,--yes", flags->yes,
            "Download more than 1 GB without a question; needed where stdin is no terminal")
      .group("Download");
  command.flag("--offline", flags->offline, "Open no connection; as HF_HUB_OFFLINE=1 does")
      .group("Download");
  command.action([=] { return pull_model(*flags); });
}

}  // namespace skald
