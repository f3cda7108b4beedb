// skald chat: a dialogue with a model, at a terminal or through a pipe.
#include <filesystem>
#include <memory>
#include <optional>

#include "app/chat/program.h"
#include "app/files/atomic_file.h"
#include "app/files/claim.h"
#include "app/generate/chat_flags.h"
#include "app/generate/constraint.h"
#include "app/generate/constraint_flags.h"
#include "app/generate/guess_flags.h"
#include "app/generate/guessing.h"
#include "app/model/chat_template.h"
#include "app/model/device.h"
#include "app/model/open.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/fingerprint.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

struct ChatCommandFlags {
  ModelFlags model;
  std::string path;  // [MODEL]
  ChatFlags chat;
  ChatSettings settings;
  std::vector<std::string> stops;
  std::string session, context_full = "ask";
  ConstraintFlags constraint;
  GuessFlags guess;
  bool no_history = false, hide_thinking = false, raw = false, stats = false;
  bool no_wrap = false;
};

ContextFull context_full(const std::string& name) {
  if (name == "drop") return ContextFull::Drop;
  return name == "stop" ? ContextFull::Stop : ContextFull::Ask;
}

// Names the template: "template from tokenizer_config.json", "the built-in chatml template".
std::string template_text(const std::string& source) {
  if (source.starts_with(kBuiltInSource)) {
    return concat("the built-in ", source.substr(kBuiltInSource.size()), " template");
  }
  return concat("template from ", printable(source));
}

// What a person should know before typing.
std::string greeting(const OpenedModel& opened, const Executor& executor,
                     const ChatTemplate& chat) {
  const fs::path name = (opened.path / "").parent_path().filename();  // works for "folder/" too
  return concat(printable(name.string()), ", context of ", executor.context(), " tokens, ",
                template_text(chat.source()), "; /help shows the commands");
}

void resume(ChatSession& session, Dialogue& dialogue, ChatScreen& screen) {
  const ChatSession::Resumed resumed = session.resume(dialogue);
  if (dialogue.messages().empty()) return;
  std::string text = concat("goes on from ", counted(dialogue.messages().size(), "message"));
  if (!resumed.missing.empty()) {
    text += concat("; their cache is computed anew: ", resumed.missing);
  }
  screen.notice(text);
}

int chat(ChatCommandFlags& flags) {
  name_model(flags.model.model, flags.path);
  if (flags.model.model.empty() && flags.chat.chosen.empty()) {
    fail(Exit::Usage,
         "no model given, and the bundled one only continues stories; 'skald chat -hf llama3.2' "
         "gets a model that talks (2 GB), 'skald chat model.gguf' takes one of yours");
  }
  if (const auto code = serve_other_rank(flags.model)) return *code;
  // Before the model loads.
  const std::shared_ptr<FileClaim> claim = claim_file(flags.session);
  if (!flags.session.empty()) check_writable(flags.session);

  const std::optional<grammar::Rules> rules = constraint_rules(flags.constraint);

  ScreenOptions look;
  look.interactive = stdin_is_terminal() && StandardOutput().is_terminal();
  look.raw = flags.raw;
  look.hide_thinking = flags.hide_thinking;
  look.wrap = !flags.no_wrap;
  look.traits = find_terminal_traits();
  ChatScreen screen(look);

  const Device device = parse_device(flags.model.device);
  check_guess_flags(flags.guess);
  const OpenedModel opened = open_model(flags.model);
  check_context(flags.model, opened.model.config);
  const ModelTokenizer tokens = open_tokenizer(opened);
  const ChatTemplate chat_template = open_chat_template(opened.path, flags.chat.chosen);
  sampling_params(flags.settings.sampling, opened.model.config.vocab);
  draw_seed(flags.settings);
  RunOptions options = flags.model.run;
  options.checkpoints = kSessionCheckpoints;
  Guessing guessing(flags.guess, flags.model, opened, *tokens.tokenizer, rules.has_value());
  const std::unique_ptr<Executor> executor = guessing.load(options, device);

  std::shared_ptr<grammar::Masks> masks;
  if (rules)
    masks = constraint_masks(
        *rules, constraint_vocabulary(*tokens.tokenizer, tokens.stop_ids, rules->tokens()));

  Dialogue dialogue({*executor, *tokens.tokenizer, chat_template, tokens.stop_ids,
                     template_variables(flags.chat)});
  guessing.start(dialogue.session());
  std::optional<ChatSession> session;
  if (!flags.session.empty()) {
    session.emplace(flags.session, model_hash(opened), *executor);
    resume(*session, dialogue, screen);
  }
  if (!flags.chat.system.empty()) dialogue.set_system(flags.chat.system);

  LineHistory history(screen.interactive() && !flags.no_history ? default_history_file()
                                                                : fs::path());
  std::optional<TerminalMode> terminal;
  std::unique_ptr<LineSource> lines;
  if (screen.interactive()) {
    screen.say_dimmed(greeting(opened, *executor, chat_template));
    terminal.emplace().hide_keys();
  }
  lines = terminal && !look.traits.dumb ? make_line_editor(*terminal, look.traits, history)
                                        : make_plain_lines(terminal ? &*terminal : nullptr);

  ChatProgram program({.dialogue = dialogue,
                       .screen = screen,
                       .lines = *lines,
                       .tokenizer = *tokens.tokenizer,
                       .executor = *executor,
                       .terminal = terminal ? &*terminal : nullptr,
                       .history = screen.interactive() ? &history : nullptr,
                       .session = session ? &*session : nullptr,
                       .masks = masks},
                      flags.settings);
  program.stops = flags.stops;
  program.context_full = context_full(flags.context_full);
  program.show_stats = flags.stats;
  const int code = program.run();
  if (!history.problem().empty()) screen.notice("the history is not kept: " + history.problem());
  return code;
}

}  // namespace

void add_chat(Command& program) {
  Command& command = program.add_command(
      "chat",
      "Talks with a model. On a terminal lines are edited and kept as history, and commands begin\n"
      "with a slash: /help shows them. In a pipe each line of stdin is a message, and stdout is\n"
      "the answers alone.",
      {"skald chat model.gguf", "skald chat folder/ -sys \"Be brief.\" --session notes.chat",
       "skald chat base.gguf --chat-template chatml",
       "printf 'Hi\\nAnd in French?\\n' | skald chat model.gguf > answers.txt"});
  auto flags = std::make_shared<ChatCommandFlags>();
  command.word("path", "[MODEL]", flags->path).check(not_empty());
  add_model_flag(command, flags->model);
  add_system_flag(command, flags->chat);
  command
      .option("--session", flags->session,
              "Go on from this file, and keep messages and cache in it")
      .type_name("FILE")
      .check(not_empty())
      .group("Prompt");
  add_template_flags(command, flags->chat);
  add_effort_flag(command, flags->chat);
  add_chat_settings(command, flags->settings);
  command.option("--stop", flags->stops, "End an answer before this text; may be repeated")
      .type_name("TEXT")
      .check(not_empty())
      .repeatable()
      .group(kChangesOutput);
  add_constraint_flags(command, flags->constraint);
  add_guess_flags(command, flags->guess);
  command
      .option("--context-full", flags->context_full,
              "ask, in a pipe an error; drop the oldest turns; or stop")
      .type_name("WHAT")
      .one_of({"ask", "drop", "stop"})
      .show_default()
      .group(kChangesOutput);
  add_run_flags(command, flags->model);
  add_device_flag(command, flags->model);
  add_rank_flag(command, flags->model.device);
  command.flag("--hide-thinking", flags->hide_thinking, "Show only that a model is thinking")
      .group("Output");
  command
      .flag("--raw-output", flags->raw,
            "Control characters in answers reach the terminal as they are")
      .group("Output");
  command.flag("--no-wrap", flags->no_wrap, "Let the terminal break lines, also within words")
      .group("Output");
  command.flag("--stats", flags->stats, "After each answer, say how fast it came").group("Output");
  command.flag("--no-history", flags->no_history, "Keep no history of what is typed")
      .group("Output");
  command.action([=] { return chat(*flags); });
}

}  // namespace skald
