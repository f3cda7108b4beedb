#include "app/model/words.h"

#include <filesystem>

#include "app/files/path_word.h"
#include "app/hub/reference.h"
#include "app/model/find_model.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& word) {
  std::error_code error;
  return !word.empty() && fs::exists(word, error);
}

// True if the path, which exists, is one that can be opened, or one that was surely meant so.
bool is_model_path(const std::string& word, const WordRules& rules) {
  const fs::path path(word);
  if (word.ends_with('/') || seems_a_model(path)) return true;
  if (!rules.tokenizer_is_enough) return false;
  return path.extension() == ".model" || path.extension() == ".json" ||
         exists(word + "/tokenizer.json") || exists(word + "/tokenizer.model");
}

// With -m, a word that happens to be a model's name is the text.
bool names_a_model(const std::string& word, bool model_given, const WordRules& rules) {
  if (exists(word)) return is_model_path(word, rules);
  if (looks_like_path(word)) return true;
  return !model_given &&
         (parse_short_name(word).has_value() || find_by_name(word, model_places()).has_value());
}

void check_text(const std::string& word, const WordRules& rules) {
  const std::string shown = printable(word, 60);
  if (exists(word)) {
    std::error_code error;
    const bool folder = fs::is_directory(word, error);
    fail(Exit::Usage, "'", shown, "' is a ", folder ? "folder" : "file", ", not a ", rules.text,
         "; ", folder ? "" : concat("-f ", shown, " reads the ", rules.text, " from it, "), "-p ",
         shown, " takes the word itself");
  }
  if (looks_like_path(word)) {
    fail(Exit::Usage, "'", shown, "' looks like a path, and there is no such file; -p ", shown,
         " takes it as the ", rules.text);
  }
}

}  // namespace

TakenWords take_words(const std::vector<std::string>& words, std::string& model,
                      const WordRules& rules) {
  TakenWords taken;
  if (words.empty()) return taken;
  const bool model_given = !model.empty();
  const std::string& first = words.front();
  const bool model_first = words.size() == 2 || (rules.text_given && !model_given) ||
                           names_a_model(first, model_given, rules);
  if (!model_first) {
    check_text(first, rules);
    taken.text = first;
    return taken;
  }
  if (model_given) {
    fail(Exit::Usage, "the model is given twice: '", printable(first), "' and -m ",
         printable(model), "; if the first is a ", rules.text, ", quote its spaces, or write -p");
  }
  if (first.empty()) fail(Exit::Usage, "the path of the model is empty");
  // A missing file is reported before a missing text.
  const bool file = fs::path(first).extension() == ".gguf" && first.find('/') == std::string::npos;
  if (file && !exists(first)) find_model({.model = first});
  model = first;
  taken.guessed = words.size() == 1 && !rules.text_given && !exists(first) &&
                  fs::path(first).extension() != ".gguf";
  if (words.size() == 2) {
    check_text(words[1], rules);
    taken.text = words[1];
  }
  return taken;
}

OpenedModel open_model_of_words(const ModelFlags& flags, const TakenWords& taken) {
  try {
    return open_model(flags);
  } catch (const Error& error) {
    if (!taken.guessed || error.code() != Exit::Model) throw;
    fail(error.code(), error.what(), "; -p takes it as the prompt");
  }
}

}  // namespace skald
