#include "app/generate/generate.h"

#include <algorithm>

namespace skald {
namespace {

double seconds(Generated::Clock::time_point from, Generated::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::Stop:
      return "stop";
    case FinishReason::Length:
      return "length";
    case FinishReason::Context:
      return "context";
    case FinishReason::Interrupted:
      return "interrupted";
  }
  return "";
}

double Generated::prompt_seconds() const { return tokens > 0 ? seconds(begin, first) : 0; }

double Generated::tokens_per_second() const {
  return tokens > 1 ? static_cast<double>(tokens - 1) / seconds(first, last) : 0;
}

Generated generate(Session& session, AnswerText& text, const GenerateOptions& options) {
  const auto show = [&](const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) {
      if (options.part) options.part(part);
    }
  };
  Generated result;
  result.begin = Generated::Clock::now();
  bool complete = options.filter && options.filter->finished();
  // Shows a token, which the session has. Returns false if it was the last one.
  const auto take = [&](const Picked& picked) {
    result.last = Generated::Clock::now();
    if (result.tokens++ == 0) result.first = result.last;
    if (options.filter) {
      options.filter->accept(picked.token);
      complete = options.filter->finished();
    }
    if (options.token) options.token(picked);
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), picked.token) !=
        options.stop_ids.end()) {
      result.reason = FinishReason::Stop;
      result.stop_id = picked.token;
      return false;
    }
    show(text.feed(picked.token));
    return !text.stopped() && !complete && result.tokens != options.most_tokens;
  };
  bool more = !complete && options.most_tokens != 0;
  while (more) {
    if (options.interrupted && options.interrupted()) {
      result.reason = FinishReason::Interrupted;
      break;
    }
    if (session.full() && !(options.make_room && options.make_room())) {
      result.reason = FinishReason::Context;
      break;
    }
    if (session.compute_part()) continue;
    if (const auto forced = options.filter && !options.score_forced ? options.filter->forced()
                                                                    : std::span<const int32_t>();
        !forced.empty()) {
      Picked picked;
      picked.token = forced.front();
      session.append(picked.token);
      ++result.forced;
      more = take(picked);
    } else {
      more = take(session.next(options.filter, result.tokens + 1 == options.most_tokens));
    }
  }
  if (complete) result.reason = FinishReason::Stop;
  show(text.end());
  if (text.stopped()) {
    result.reason = FinishReason::Stop;
    result.stop = text.stop();
  }
  return result;
}

}  // namespace skald
