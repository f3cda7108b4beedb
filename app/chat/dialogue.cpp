#include "app/chat/dialogue.h"

#include <algorithm>
#include <utility>

#include "app/generate/constraint.h"
#include "engine/base/error.h"
#include "tokenizer/chat/chat_encode.h"
#include "tokenizer/text/common_text.h"

namespace skald {
namespace {

// The tokens that may remain when turns are dropped. A quarter of the context becomes free, because
// after every drop the remaining turns are computed again.
int64_t goal(int64_t context) { return context - context / 4; }

bool is_user(const Message& message) { return message.role == "user"; }

bool has_system(const std::vector<Message>& messages) {
  return !messages.empty() && messages[0].role == "system";
}

}  // namespace

Dialogue::Dialogue(DialogueModel model) : model_(std::move(model)), session_(model_.executor, {}) {}

std::string_view Dialogue::system() const {
  return has_system(messages_) ? messages_[0].content : std::string_view();
}

int Dialogue::turns() const {
  return static_cast<int>(std::count_if(messages_.begin(), messages_.end(), is_user));
}

bool Dialogue::awaits_answer() const { return !messages_.empty() && is_user(messages_.back()); }

Conversation Dialogue::conversation(const std::vector<Message>& messages) const {
  std::vector<jinja::Value> list;
  for (const Message& message : messages) {
    jinja::Dict dict;
    dict.set("role", jinja::Value::text(message.role));
    dict.set("content", jinja::Value::text(message.content));
    list.push_back(jinja::Value::dict(std::move(dict)));
  }
  Conversation conversation;
  conversation.messages = jinja::Value::list(std::move(list));
  conversation.more = model_.variables;
  conversation.generation_prompt = !messages.empty() && is_user(messages.back());
  return conversation;
}

void Dialogue::check_renders(const std::vector<Message>& messages) const {
  std::vector<Message> probe = messages;
  if (probe.empty() || !is_user(probe.back())) probe.push_back({"user", "a"});
  model_.chat_template.render(conversation(probe));
}

void Dialogue::set_system(std::string text) {
  std::vector<Message> changed = messages_;
  if (has_system(changed)) changed.erase(changed.begin());
  if (!text.empty()) changed.insert(changed.begin(), {"system", std::move(text)});
  check_renders(changed);
  messages_ = std::move(changed);
}

void Dialogue::say(std::string text) {
  check(!awaits_answer(), "a message is answered before the next one");
  messages_.push_back({"user", std::move(text)});
  try {
    check_renders(messages_);
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

bool Dialogue::undo() {
  const auto last = std::find_if(messages_.rbegin(), messages_.rend(), is_user);
  if (last == messages_.rend()) return false;
  messages_.erase(std::prev(last.base()), messages_.end());
  return true;
}

bool Dialogue::take_back_answer() {
  if (awaits_answer()) return true;
  if (turns() == 0) return false;
  while (!awaits_answer()) messages_.pop_back();
  return true;
}

void Dialogue::clear() { messages_.resize(has_system(messages_) ? 1 : 0); }

void Dialogue::replace(std::vector<Message> messages) {
  check_renders(messages);
  messages_ = std::move(messages);
  answers_ = std::max<int64_t>(answers_, std::ssize(messages_));
}

std::vector<Message> Dialogue::without_oldest(int turns) const {
  auto first = messages_.begin() + has_system(messages_);
  const auto system_end = first;
  for (; turns > 0; --turns) {
    first =
        std::find_if(std::find_if(first, messages_.end(), is_user) + 1, messages_.end(), is_user);
  }
  std::vector<Message> rest(messages_.begin(), system_end);
  rest.insert(rest.end(), first, messages_.end());
  return rest;
}

Dialogue::Plan Dialogue::plan(int dropped_turns) const {
  std::vector<int32_t> ids = encode_chat(model_.tokenizer, model_.chat_template,
                                         conversation(without_oldest(dropped_turns)));
  ids.insert(ids.end(), answer_ids_.begin(), answer_ids_.end());
  const CommonText common = common_text(model_.tokenizer, session_.tokens(), ids);
  return {static_cast<int64_t>(common.a),
          {ids.begin() + static_cast<std::ptrdiff_t>(common.b), ids.end()}};
}

Room Dialogue::room() const {
  Room room;
  const auto needed = [&](int drop) { return plan(drop).length() + 1; };
  room.context = model_.executor.context();
  room.needed = room.needed_after = needed(0);
  const int most = turns() - 1;
  if (room.fits() || most <= 0) return room;
  // The fewest turns that reach the goal, or all but the last one.
  int few = 0;
  room.drop = most;
  while (room.drop - few > 1) {
    const int middle = few + (room.drop - few) / 2;
    (needed(middle) <= goal(room.context) ? room.drop : few) = middle;
  }
  room.needed_after = needed(room.drop);
  return room;
}

bool Dialogue::make_room(const AnswerOptions& options) {
  const Room room = this->room();
  if (room.drop == 0 || !room.fits()) return false;
  if (!options.drop_turns || !options.drop_turns(room)) return false;
  messages_ = without_oldest(room.drop);
  const Plan next = plan(0);
  session_.truncate(next.keep);
  session_.feed(next.feed);
  return true;
}

Answer Dialogue::answer(const AnswerOptions& options) {
  check(awaits_answer(), "a message is answered");
  answer_ids_.clear();
  Answer answer;
  answer.generated.reason = FinishReason::Context;
  const Room before = room();
  if (!before.fits()) {
    fail(Exit::Failed, "the message needs ", before.needed_after,
         " tokens, with the system prompt and the beginning of an answer, but the context holds ",
         before.context, "; shorten it, or ask for a larger context with -c");
  }
  if (before.drop > 0 && !make_room(options)) return answer;
  const Plan next = plan(0);
  answer.prompt = next.length();
  answer.reused = std::min(next.keep, session_.computed());
  session_.truncate(next.keep);
  session_.feed(next.feed);
  session_.set_sampling(options.sampling, static_cast<uint64_t>(answers_++));

  const std::vector<int32_t> prompt = session_.tokens();
  AnswerText text(model_.tokenizer,
                  {.stops = options.stops, .channels = true, .tags = true, .prompt = prompt});
  std::unique_ptr<TokenFilter> filter;
  if (options.masks) {
    filter = answer_constraint(options.masks, model_.tokenizer, TextStream::Begin::Continuation,
                               prompt, options.sampling.logit_bias.empty());
  }
  GenerateOptions generating;
  generating.stop_ids = model_.stop_ids;
  generating.most_tokens = options.most_tokens;
  generating.filter = filter.get();
  generating.part = options.part;
  generating.interrupted = options.interrupted;
  generating.make_room = [&] { return make_room(options); };
  generating.token = [&](const Picked& picked) { answer_ids_.push_back(picked.token); };
  const auto keep_answer = [&] {
    if (!answer_ids_.empty()) messages_.push_back({"assistant", text.kept()});
    answer_ids_.clear();
  };
  try {
    answer.generated = generate(session_, text, generating);
  } catch (...) {
    keep_answer();
    throw;
  }
  keep_answer();
  return answer;
}

std::string Dialogue::prompt() const {
  return messages_.empty() ? "" : model_.chat_template.render(conversation(messages_));
}

int64_t Dialogue::tokens() const { return messages_.empty() ? 0 : plan(0).length(); }

void Dialogue::trim() {
  if (!messages_.empty()) session_.truncate(plan(0).keep);
}

}  // namespace skald
