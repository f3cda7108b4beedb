// Tells the words [MODEL] [TEXT] of a command apart. Two words are the model and the text. A single
// word is the model if it names one, as a short name of the hub does (llama3.2), or if a flag gives
// the text already; else it is the text. A word that looks like a path (app/files/path_word.h), or
// that names a file or folder, is never the text: -p gives such a text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/model/open.h"

namespace skald {

struct WordRules {
  std::string_view text = "prompt";  // what messages call the text
  bool text_given = false;           // by a flag
  bool tokenizer_is_enough = false;  // MODEL may be a tokenizer.model or tokenizer.json
};

struct TakenWords {
  std::optional<std::string> text;
  bool guessed = false;  // the model's word, which is not there, might be meant as the text
};

// `model` is the value of -m, or empty; it becomes the model's word if there is one. Throws
// Error(Exit::Usage) where the model is given twice, or where a word can be neither, and
// Error(Exit::Model) for a GGUF that is not there.
TakenWords take_words(const std::vector<std::string>& words, std::string& model,
                      const WordRules& rules);

// Does the same as open_model(). An Error about a guessed word says how to give it as the text.
OpenedModel open_model_of_words(const ModelFlags& flags, const TakenWords& taken);

}  // namespace skald
