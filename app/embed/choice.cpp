#include "app/embed/choice.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "app/files/input.h"
#include "app/files/json.h"
#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

struct Named {
  std::string_view name;  // of --pooling
  std::string_view mode;  // "pooling_mode"
  std::string_view key;   // which is true in a pooling module's config.json
  Pooling pooling;
};
constexpr Named kPoolings[] = {
    {"mean", "mean", "pooling_mode_mean_tokens", Pooling::Mean},
    {"last", "lasttoken", "pooling_mode_lasttoken", Pooling::Last},
    {"cls", "cls", "pooling_mode_cls_token", Pooling::First},
};

std::string_view name_of(Pooling pooling) {
  for (const Named& one : kPoolings) {
    if (one.pooling == pooling) return one.name;
  }
  return "";
}

// What the model's files say.
struct Said {
  std::optional<Pooling> pooling;
  std::optional<bool> normalize;
  bool without_prompts = false;  // the mean leaves the prompts' tokens out
  std::map<std::string, std::string> prompts;
  std::string default_prompt;
};

[[noreturn]] void fail_pooling(const std::string& where, const std::string& what) {
  fail(Exit::Model, where, ": ", what, "; skald pools by mean, lasttoken or cls_token (--pooling)");
}

void read_pooling(const fs::path& file, Said& said) {
  const HfConfig config = HfConfig::read(file);
  std::string others;
  if (config.is_text("pooling_mode")) {
    const std::string mode = config.text("pooling_mode");
    for (const Named& one : kPoolings) {
      if (one.mode == mode) said.pooling = one.pooling;
    }
    if (!said.pooling) others = mode;
  }
  for (const std::string& key : config.keys()) {
    if (!key.starts_with("pooling_mode_") || !config.boolean_or(key, false)) continue;
    const Named* found = nullptr;
    for (const Named& one : kPoolings) {
      if (one.key == key) found = &one;
    }
    if (!found || (said.pooling && *said.pooling != found->pooling)) others = key;
    if (found) said.pooling = found->pooling;
  }
  if (!others.empty()) {
    fail_pooling(config.where(),
                 concat("'", printable(others, 60), "' is a pooling without support"));
  }
  said.without_prompts = !config.boolean_or("include_prompt", true);
}

// The last word of "sentence_transformers.models.Pooling".
std::string module_type(const Json& module, const fs::path& file) {
  const Json type = module.is_object() ? module.value("type", Json()) : Json();
  if (!type.is_string()) {
    fail(Exit::Model, printable(file.string()), ": expected a list of modules with a 'type' each");
  }
  const std::string text = type.get<std::string>();
  return text.substr(text.rfind('.') + 1);
}

void read_modules(const fs::path& folder, Said& said) {
  const fs::path file = folder / "modules.json";
  const Json modules = parse_json_or_null(read_bytes(file.string()));
  if (!modules.is_array())
    fail(Exit::Model, printable(file.string()), ": expected a list of modules");
  said.normalize = false;
  for (const Json& module : modules) {
    const std::string type = module_type(module, file);
    if (type == "Normalize") {
      said.normalize = true;
    } else if (type == "Pooling") {
      read_pooling(folder / fs::path(module.value("path", "1_Pooling")).filename() / "config.json",
                   said);
    } else if (type != "Transformer") {
      fail(Exit::Model, printable(file.string()), ": the module '", printable(type, 60),
           "' is not supported; these are: Transformer, Pooling, Normalize");
    }
  }
}

void read_prompts(const fs::path& file, Said& said) {
  const HfConfig config = HfConfig::read(file);
  if (config.is_object("prompts")) {
    const HfConfig prompts = config.object("prompts");
    for (const std::string& name : prompts.keys()) said.prompts[name] = prompts.text(name);
  }
  said.default_prompt = config.text_or("default_prompt_name", "");
}

void read_gguf(const GgufFile& file, Said& said) {
  const std::string_view arch = file.metadata().text_or("general.architecture", "");
  switch (file.metadata().uint_or(concat(arch, ".pooling_type"), 0)) {
    case 0:  // none is named
      break;
    case 1:
      said.pooling = Pooling::Mean;
      break;
    case 2:
      said.pooling = Pooling::First;
      break;
    case 3:
      said.pooling = Pooling::Last;
      break;
    default:
      fail_pooling(printable(file.path()), concat(arch, ".pooling_type is none of 0 to 3"));
  }
}

Said read_files(const OpenedModel& opened) {
  Said said;
  if (opened.gguf) {
    read_gguf(*opened.gguf, said);
    return said;
  }
  const fs::path& folder = opened.path;
  const fs::path pooling = folder / "1_Pooling" / "config.json";
  const fs::path prompts = folder / "config_sentence_transformers.json";
  if (fs::exists(folder / "modules.json")) {
    read_modules(folder, said);
  } else if (fs::exists(pooling)) {
    read_pooling(pooling, said);
  }
  if (fs::exists(prompts)) read_prompts(prompts, said);
  return said;
}

const std::string& prompt_of(const Said& said, const std::string& name) {
  const auto found = said.prompts.find(name);
  if (found != said.prompts.end()) return found->second;
  std::string names;
  for (const auto& [known, text] : said.prompts) {
    names += concat(names.empty() ? "" : ", ", printable(known, 60));
  }
  fail(Exit::Usage, "--prompt-name '", printable(name, 60), "': the model has ",
       names.empty() ? "no prompts; --prefix gives a text" : concat("these prompts: ", names));
}

// The first of these prompts that the model has.
std::string first_prompt(const Said& said, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = said.prompts.find(name);
    if (found != said.prompts.end()) return found->second;
  }
  return "";
}

}  // namespace

void add_embed_flags(Command& command, EmbedFlags& flags, const std::string& group) {
  command
      .option("--pooling", flags.pooling,
              "What of a text is its vector; cls: first token [by the files, or last]")
      .type_name("WHAT")
      .one_of({"mean", "last", "cls"})
      .group(group);
  const Option yes =
      command
          .flag("--normalize", flags.normalize,
                "Give vectors the length 1; default: as the model's files say, else so")
          .group(group);
  command.flag("--no-normalize", flags.no_normalize, "Leave the length of vectors as it is")
      .excludes(yes)
      .group(group);
  const Option name =
      command
          .option("--prompt-name", flags.prompt_name,
                  "Put this prompt of config_sentence_transformers.json before texts")
          .type_name("NAME")
          .check(not_empty())
          .group(group);
  command
      .option(
          "--prefix",
          [&flags](const std::string& text) {
            flags.prefix = text;
            flags.has_prefix = true;
          },
          "Put this text before texts [the model's default prompt, if any]")
      .type_name("TEXT")
      .excludes(name)
      .group(group);
}

EmbedChoice choose_embedding(const OpenedModel& opened, const EmbedFlags& flags) {
  const Said said = read_files(opened);
  EmbedChoice choice;
  choice.pooling = said.pooling.value_or(Pooling::Last);
  for (const Named& one : kPoolings) {
    if (one.name == flags.pooling) choice.pooling = one.pooling;
  }
  choice.normalize = flags.normalize || (!flags.no_normalize && said.normalize.value_or(true));
  choice.query_prefix = first_prompt(said, {"query"});
  choice.document_prefix = first_prompt(said, {"document", "passage", "corpus"});
  if (flags.has_prefix) {
    choice.prefix = choice.query_prefix = flags.prefix;
  } else if (!flags.prompt_name.empty()) {
    choice.prefix = choice.query_prefix = prompt_of(said, flags.prompt_name);
  } else if (!said.default_prompt.empty()) {
    choice.prefix = prompt_of(said, said.default_prompt);
  }
  const bool prompts = !choice.prefix.empty();
  if (prompts && said.without_prompts && choice.pooling == Pooling::Mean) {
    fail(Exit::Model, printable(opened.path.string()),
         ": 'include_prompt' is false: a mean without the prompt's tokens is not supported");
  }
  return choice;
}

Json embed_settings(const EmbedChoice& choice) {
  return {{"pooling", name_of(choice.pooling)},
          {"normalize", choice.normalize},
          {"prefix", choice.prefix},
          {"query_prefix", choice.query_prefix},
          {"document_prefix", choice.document_prefix}};
}

}  // namespace skald
