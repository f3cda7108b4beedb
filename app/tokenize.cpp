// skald tokenize: text to token ids and back, as every other command does it.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>

#include "app/commands.h"
#include "app/help.h"
#include "app/input.h"
#include "app/json.h"
#include "app/open.h"
#include "app/output.h"
#include "app/signals.h"
#include "engine/error.h"
#include "engine/printable.h"

namespace skald {
namespace {

struct TokenizeFlags {
  std::vector<std::string> words;  // MODEL [TEXT]
  std::string text, file;
  bool jsonl = false, decode = false, pieces = false, count = false, no_bos = false,
       special = false;
};

EncodeOptions encode_options(const TokenizeFlags& flags) {
  EncodeOptions options;
  if (flags.no_bos) options.add_bos = options.add_eos = false;
  options.parse_special = flags.special;
  return options;
}

std::string ids_text(const std::vector<int32_t>& ids) {
  std::string text;
  for (int32_t id : ids) text += concat(text.empty() ? "" : " ", id);
  return text;
}

// One line in, one line out; a bad line is an error object, the rest goes on.
std::string convert_line(const std::string& line, const Tokenizer& tokenizer,
                         const TokenizeFlags& flags, bool& failed) {
  try {
    const Json input = Json::parse(line);
    if (flags.decode) return dump(tokenizer.decode(input.get<std::vector<int32_t>>()));
    return dump(tokenizer.encode(input.get<std::string>(), encode_options(flags)));
  } catch (const nlohmann::json::exception&) {
    failed = true;
    return dump({{"error",
                  flags.decode ? "expected a JSON array of token ids" : "expected a JSON string"}});
  }
}

int convert_lines(const Tokenizer& tokenizer, const TokenizeFlags& flags) {
  StandardOutput out;
  std::string line;
  bool failed = false;
  int64_t number = 0;
  while (!interrupted_by() && std::getline(std::cin, line)) {
    ++number;
    bool line_failed = false;
    out.write(convert_line(line, tokenizer, flags, line_failed) + "\n");
    if (line_failed) {
      std::fprintf(stderr, "skald: line %lld: expected %s\n", static_cast<long long>(number),
                   flags.decode ? "a JSON array of token ids" : "a JSON string");
    }
    failed |= line_failed;
  }
  if (interrupted_by()) return 128 + interrupted_by();
  return static_cast<int>(failed ? Exit::SomeLines : Exit::Done);
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    while (at < end && std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) ++at;
    if (at == end) return ids;
    int32_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc()) {
      fail(Exit::Usage, "--decode: '", printable(std::string(at, end), 20),
           "': expected token ids, as in 1 15043 3186");
    }
    ids.push_back(id);
    at = rest;
  }
}

int convert_text(const Tokenizer& tokenizer, const TokenizeFlags& flags, const std::string& text) {
  StandardOutput out;
  if (flags.decode) {
    out.write(tokenizer.decode(parse_ids(text)) + "\n");
    return 0;
  }
  const std::vector<int32_t> ids = tokenizer.encode(text, encode_options(flags));
  if (flags.count) {
    out.write(concat(ids.size(), "\n"));
  } else if (flags.pieces) {
    for (int32_t id : ids) out.write(concat(id, "\t", printable(tokenizer.piece(id)), "\n"));
  } else {
    out.write(ids_text(ids) + "\n");
  }
  return 0;
}

int tokenize(TokenizeFlags& flags, bool text_given) {
  if (flags.jsonl && (flags.pieces || flags.count || text_given || !flags.file.empty())) {
    fail(Exit::Usage, "--jsonl reads lines from stdin and takes no text, --pieces or --count");
  }
  if (flags.decode && (flags.pieces || flags.count)) {
    fail(Exit::Usage, "--decode prints text and takes no --pieces or --count");
  }
  const std::vector<std::string>& words = flags.words;
  const auto tokenizer =
      open_tokenizer(words.empty() ? bundled_model() : std::filesystem::path(words[0]));
  if (flags.jsonl) {
    if (words.size() > 1) fail(Exit::Usage, "--jsonl reads lines from stdin and takes no text");
    return convert_lines(*tokenizer, flags);
  }
  const int sources = static_cast<int>(words.size() > 1) + text_given + !flags.file.empty();
  if (sources > 1) fail(Exit::Usage, "a text is given twice; use one of: the argument, -p, -f");
  if (words.size() > 1) return convert_text(*tokenizer, flags, words[1]);
  if (text_given) return convert_text(*tokenizer, flags, flags.text);
  return convert_text(*tokenizer, flags, read_text(flags.file.empty() ? "-" : flags.file));
}

}  // namespace

void add_tokenize(CLI::App& program, Action& chosen) {
  CLI::App* command = add_command(
      program, "tokenize",
      "Turns text into token ids. MODEL is a model or only a tokenizer.model [bundled model]; the\n"
      "text is the second argument, -p, -f or stdin.",
      {"skald tokenize model.gguf \"Hello world\" --pieces",
       "skald tokenize tokenizer.model --jsonl < texts.jsonl > ids.jsonl",
       "skald tokenize folder/ --decode \"1 15043 3186\""});
  auto flags = std::make_shared<TokenizeFlags>();
  command->add_option("words", flags->words, "")->option_text("[MODEL] [TEXT]")->expected(0, 2);
  CLI::Option* text = command->add_option("-p,--prompt", flags->text, "The text")
                          ->type_name("TEXT")
                          ->group("Input");
  command->add_option("-f,--file", flags->file, "Read it from a file; -: from stdin")
      ->type_name("FILE")
      ->group("Input");
  command->add_flag("--jsonl", flags->jsonl, "A JSON string a line in, an array of ids a line out")
      ->group("Input");
  command->add_flag("--decode", flags->decode, "From ids back to text; with --jsonl too")
      ->group(kChangesOutput);
  command->add_flag("--no-bos", flags->no_bos, "Add no begin or end token")->group(kChangesOutput);
  command->add_flag("--special", flags->special, "Read control tokens such as </s> in the text")
      ->group(kChangesOutput);
  command->add_flag("--pieces", flags->pieces, "One line a token: id and piece")->group("Output");
  command->add_flag("--count", flags->count, "Only the number of tokens")->group("Output");
  command->callback([=, &chosen] { chosen = [=] { return tokenize(*flags, text->count() > 0); }; });
}

}  // namespace skald
