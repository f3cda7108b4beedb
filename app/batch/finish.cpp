#include "app/batch/finish.h"

#include <utility>

#include "app/batch/run.h"

namespace skald {
namespace {

void cancel_all(BatchJob& job) {
  for (BatchPrompt& prompt : job.prompts) {
    for (int s = 0; s < prompt.samples(); ++s) prompt.cancelled[s] = true;
  }
}

}  // namespace

void BatchFinisher::take(BatchNews news) {
  if (news.job && news.job->open == 0) {
    finish(*news.job);
  } else if (news.job) {
    const BatchJob* key = news.job.get();
    jobs_.emplace(key, std::move(news.job));
  }
  for (GenerationEvent& event : news.events) take_event(event);
}

void BatchFinisher::take_event(GenerationEvent& event) {
  BatchPrompt& prompt = static_cast<BatchPrompt&>(*event.generation);
  switch (event.kind) {
    case GenerationEvent::Kind::PromptToken:
      prompt.scores.push_back(std::move(event.picked));
      break;
    case GenerationEvent::Kind::Token: {
      SampleText& text = prompt.texts[static_cast<size_t>(event.sample)];
      if (text.ended()) break;  // the model was a token ahead of a stop text
      if (!text.feed(std::move(event.picked))) prompt.cancelled[event.sample] = true;
      ++run_.counts.tokens_out;
      break;
    }
    case GenerationEvent::Kind::End:
      end_sample(prompt, event);
      break;
  }
}

void BatchFinisher::end_sample(BatchPrompt& prompt, GenerationEvent& event) {
  BatchJob& job = *prompt.job;
  prompt.texts[static_cast<size_t>(event.sample)].end(event.ending);
  if (event.ending == Ending::Failed && !job.problem) {
    job.problem = BatchProblem{"failed", std::move(event.problem)};
    cancel_all(job);
  }
  if (--job.open > 0) return;
  finish(job);
  jobs_.erase(&job);
}

void BatchFinisher::finish(const BatchJob& job) {
  if (job.skipped) {
    run_.writer.pass(job.turn);
    ++run_.counts.skipped;
    return;
  }
  run_.writer.write(job.turn, batch_result(job, run_.result));
  ++(job.problem ? run_.counts.failed : run_.counts.done);
  run_.counts.tokens_in += job.prompt_tokens();
}

}  // namespace skald
