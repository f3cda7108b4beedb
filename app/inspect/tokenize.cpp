// skald tokenize: converts text to token ids and back, exactly as the other commands do.
#include <charconv>
#include <cstdio>
#include <iostream>

#include "app/files/input.h"
#include "app/files/json.h"
#include "app/files/signals.h"
#include "app/inspect/tokenize_check.h"
#include "app/model/find_model.h"
#include "app/model/open.h"
#include "app/model/words.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

struct TokenizeFlags : ModelName {
  Words words;  // [MODEL] [TEXT]
  std::string text, file, check;
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

// The tokenizer decodes any id, because models pad their embedding beyond the vocabulary. An id
// that a user gave must be in the vocabulary.
void check_id(int64_t id, const Tokenizer& tokenizer) {
  if (id < 0 || id >= tokenizer.vocab_size()) {
    fail(Exit::Usage, "token id ", id, ": expected an id of the vocabulary, 0 to ",
         tokenizer.vocab_size() - 1);
  }
}

std::string convert_json(const Json& input, const Tokenizer& tokenizer,
                         const TokenizeFlags& flags) {
  if (!flags.decode) {
    if (!input.is_string()) fail(Exit::Usage, "expected a JSON string");
    return dump(tokenizer.encode(input.get_ref<const std::string&>(), encode_options(flags)));
  }
  if (!input.is_array()) fail(Exit::Usage, "expected a JSON array of token ids");
  std::vector<int32_t> ids;
  for (const Json& element : input) {
    if (!element.is_number_integer()) fail(Exit::Usage, "expected a JSON array of token ids");
    const bool huge = element.is_number_unsigned() && element.get<uint64_t>() > INT64_MAX;
    check_id(huge ? INT64_MAX : element.get<int64_t>(), tokenizer);
    ids.push_back(element.get<int32_t>());
  }
  return dump(tokenizer.decode(ids, flags.special));
}

// Converts stdin line by line. A bad line becomes an error object; the other lines are converted.
int convert_lines(const Tokenizer& tokenizer, const TokenizeFlags& flags) {
  StandardOutput out;
  std::string line;
  bool failed = false;
  for (int64_t number = 1; !interrupted_by() && std::getline(std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string problem;
    try {
      out.write(convert_json(parse_json(line), tokenizer, flags) + "\n");
    } catch (const nlohmann::json::exception&) {
      problem = "not valid JSON";
    } catch (const Error& error) {
      if (error.code() != Exit::Usage) throw;
      problem = error.what();
    }
    if (problem.empty()) continue;
    failed = true;
    out.write(dump({{"error", problem}, {"line", number}}) + "\n");
    std::fprintf(stderr, "skald: line %lld: %s\n", static_cast<long long>(number), problem.c_str());
  }
  if (interrupted_by()) return 128 + interrupted_by();
  if (std::ferror(stdin)) fail(Exit::Failed, "stdin: cannot be read");
  return static_cast<int>(failed ? Exit::SomeLines : Exit::Done);
}

std::vector<int32_t> parse_ids(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    while (at < end && std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) ++at;
    if (at == end) return ids;
    int64_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc()) {
      fail(Exit::Usage, "--decode: '", printable(std::string(at, end), 20),
           "': expected token ids, as in 1 15043 3186");
    }
    check_id(id, tokenizer);
    ids.push_back(static_cast<int32_t>(id));
    at = rest;
  }
}

int convert_text(const Tokenizer& tokenizer, const TokenizeFlags& flags, const std::string& text) {
  StandardOutput out;
  if (flags.decode) {
    // A pipe gets the text alone; a terminal's next prompt needs a line of its own.
    out.write(tokenizer.decode(parse_ids(text, tokenizer), flags.special) +
              (out.is_terminal() ? "\n" : ""));
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
  const bool elsewhere = text_given || !flags.file.empty() || flags.jsonl || !flags.check.empty();
  const TakenWords words =
      take_words(flags.words.given(), flags.model,
                 {.text = "text", .text_given = elsewhere, .tokenizer_is_enough = true});
  const int sources = static_cast<int>(words.text.has_value()) + text_given + !flags.file.empty();
  if (sources > 1) {
    fail(Exit::Usage, "the text is given more than once; use one of: the argument, -p, -f");
  }
  if (flags.jsonl && (flags.pieces || flags.count || sources > 0)) {
    fail(Exit::Usage, "--jsonl reads stdin; leave out the text, --pieces and --count");
  }
  if (flags.decode && (flags.pieces || flags.count)) {
    fail(Exit::Usage, "--decode prints text; leave out --pieces and --count");
  }
  if (!flags.check.empty() &&
      (flags.jsonl || flags.decode || flags.pieces || flags.count || sources)) {
    fail(Exit::Usage,
         "--check reads its texts from FILE; leave out all flags but --no-bos and --special");
  }
  const auto tokenizer = open_tokenizer(flags.model.empty() ? bundled_model() : find_model(flags));
  if (!flags.check.empty()) return check_ids(flags.check, *tokenizer, encode_options(flags));
  if (flags.jsonl) return convert_lines(*tokenizer, flags);
  if (words.text) return convert_text(*tokenizer, flags, *words.text);
  if (text_given) return convert_text(*tokenizer, flags, flags.text);
  return convert_text(*tokenizer, flags, read_text(flags.file.empty() ? "-" : flags.file));
}

}  // namespace

void add_tokenize(Command& program) {
  Command& command = program.add_command(
      "tokenize",
      "Converts text to token ids. MODEL is a model, a tokenizer.model or a "
      "tokenizer.json [bundled\n"
      "model]. The text is the last argument, -p, -f or stdin.",
      {"skald tokenize \"Once upon a time\"", "skald tokenize model.gguf \"Hello world\" --pieces",
       "skald tokenize tokenizer.model --jsonl < texts.jsonl > ids.jsonl",
       "skald tokenize folder/ --decode \"1 15043 3186\""});
  auto flags = std::make_shared<TokenizeFlags>();
  add_words(command, flags->words, "MODEL", "TEXT");
  add_model_flag(command, *flags, "Input");
  const Option text =
      command.option("-p,--prompt", flags->text, "Convert TEXT").type_name("TEXT").group("Input");
  command.option("-f,--file", flags->file, "Read the text from FILE; -: from stdin")
      .type_name("FILE")
      .check(not_empty())
      .group("Input");
  command
      .flag("--jsonl", flags->jsonl,
            "Read a JSON string per line, print an array of ids per line. Skip blank lines. "
            "For a bad "
            "line, print {\"error\": …, \"line\": …} and exit with 5 at the end")
      .group("Input");
  command
      .option("--check", flags->check,
              "Compare with the ids in FILE, lines of {\"text\": \"...\", \"ids\": [...]}; "
              "exit with 1 if any differ")
      .type_name("FILE")
      .check(not_empty())
      .group("Input");
  command.flag("--decode", flags->decode, "Convert ids to text, also with --jsonl")
      .group(kChangesOutput);
  command.flag("--no-bos", flags->no_bos, "Add no begin or end token").group(kChangesOutput);
  command
      .flag("--special", flags->special,
            "Read control tokens such as </s> in the text; with --decode: print them")
      .group(kChangesOutput);
  const Option pieces =
      command.flag("--pieces", flags->pieces, "Print a line per token: id and piece")
          .group("Output");
  command.flag("--count", flags->count, "Print only the number of tokens")
      .excludes(pieces)
      .group("Output");
  command.action([=] { return tokenize(*flags, text.given()); });
}

}  // namespace skald
