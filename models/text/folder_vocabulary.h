// The SentencePiece vocabulary of a Hugging Face folder: tokenizer.model, with the tokens that
// tokenizer_config.json and added_tokens.json add to it and with their settings.
#pragma once

#include <filesystem>

#include "tokenizer/sentencepiece/sentencepiece.h"

namespace skald {

// `model` is the path of the tokenizer.model. Throws Error(Exit::Model).
Vocabulary folder_vocabulary(const std::filesystem::path& model);

// Tokens that end a turn become control tokens. Some files mark them as user-defined; then a user's
// text could end the turn, and generation would not stop at them.
void make_turn_ends_control(Vocabulary& vocabulary);

}  // namespace skald
