#include "app/batch/logprobs.h"

#include <string>

#include "app/files/json_number.h"

namespace skald {
namespace {

// What a token reads as; of control tokens their names. Bytes that are half a character are
// replaced when the JSON is written.
std::string token_text(int32_t id, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.piece_bytes(id);
  return std::string(bytes.empty() ? tokenizer.piece(id) : bytes);
}

Json token_json(int32_t id, const Tokenizer* tokenizer) {
  return tokenizer ? Json(token_text(id, *tokenizer)) : Json(nullptr);
}

int64_t characters(const std::string& text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

class CompletionLists {
 public:
  explicit CompletionLists(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  void add(int32_t token, const Picked* picked) {
    ids_.push_back(token);
    tokens_.push_back(token_json(token, tokenizer_));
    offsets_.push_back(offset_);
    if (tokenizer_) offset_ += characters(std::string(tokenizer_->piece_bytes(token)));
    logprobs_.push_back(picked ? float_json(picked->logprob) : Json(nullptr));
    top_.push_back(picked ? top(*picked) : Json(nullptr));
  }

  Json take() {
    Json json = {{"tokens", std::move(tokens_)},
                 {"token_logprobs", std::move(logprobs_)},
                 {"top_logprobs", std::move(top_)},
                 {"text_offset", tokenizer_ ? std::move(offsets_) : Json(nullptr)}};
    json["token_ids"] = std::move(ids_);
    return json;
  }

 private:
  // Different tokens may read the same; the best of them counts.
  Json top(const Picked& picked) const {
    Json object = Json::object();
    for (const auto& [id, logprob] : picked.top) {
      const std::string name = tokenizer_ ? token_text(id, *tokenizer_) : std::to_string(id);
      if (!object.contains(name)) object[name] = float_json(logprob);
    }
    return object;
  }

  const Tokenizer* tokenizer_;
  Json ids_ = Json::array(), tokens_ = Json::array(), offsets_ = Json::array(),
       logprobs_ = Json::array(), top_ = Json::array();
  int64_t offset_ = 0;
};

Json chat_token(int32_t id, float logprob, const Tokenizer* tokenizer) {
  Json json = {{"token", token_json(id, tokenizer)}, {"logprob", float_json(logprob)}};
  Json bytes = nullptr;
  if (tokenizer) {
    bytes = Json::array();
    for (const char c : tokenizer->piece_bytes(id)) {
      bytes.push_back(static_cast<unsigned char>(c));
    }
  }
  json["bytes"] = std::move(bytes);
  return json;
}

}  // namespace

Json completion_logprobs(const BatchPrompt& prompt, const SampleText& text, bool echo,
                         const Tokenizer* tokenizer) {
  CompletionLists lists(tokenizer);
  if (echo) {
    for (size_t i = 0; i < prompt.prompt.size(); ++i) {
      const bool scored = i > 0 && i - 1 < prompt.scores.size();
      lists.add(prompt.prompt[i], scored ? &prompt.scores[i - 1] : nullptr);
    }
  }
  for (const Picked& picked : text.picks()) lists.add(picked.token, &picked);
  return lists.take();
}

Json chat_logprobs(const SampleText& text, const Tokenizer* tokenizer) {
  Json content = Json::array();
  for (const Picked& picked : text.picks()) {
    Json token = chat_token(picked.token, picked.logprob, tokenizer);
    Json top = Json::array();
    for (const auto& [id, logprob] : picked.top) {
      top.push_back(chat_token(id, logprob, tokenizer));
    }
    token["top_logprobs"] = std::move(top);
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json plain_logprobs(const std::vector<Picked>& picks, const Tokenizer* tokenizer) {
  const auto token = [&](int32_t id, float logprob) -> Json {
    return {{"id", id}, {"token", token_json(id, tokenizer)}, {"logprob", float_json(logprob)}};
  };
  Json list = Json::array();
  for (const Picked& picked : picks) {
    Json one = token(picked.token, picked.logprob);
    if (!picked.top.empty()) {
      one["top"] = Json::array();
      for (const auto& [id, logprob] : picked.top) one["top"].push_back(token(id, logprob));
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace skald
