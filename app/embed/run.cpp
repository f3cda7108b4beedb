#include "app/embed/run.h"

#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "app/embed/result.h"
#include "app/embed/texts.h"
#include "app/files/signals.h"
#include "app/jobs/openai_line.h"
#include "engine/base/error.h"

namespace skald {
namespace {

constexpr std::string_view kUrls[] = {kEmbeddingsUrl, kRerankUrl};

struct EmbedJob;

struct EmbedText : Generation {
  EmbedJob* job = nullptr;
  std::vector<float> vector;
};

struct EmbedJob : JobLine {
  EmbedRequest request;
  std::deque<EmbedText> texts;
  size_t open = 0;  // texts that have no vector yet
  int64_t tokens = 0, cut = 0;
  Progress::Clock::time_point taken = Progress::Clock::now();
};

class Embedding {
 public:
  Embedding(Executor& executor, const SchedulerLimits& limits, const EmbedOptions& options,
            JobRun& job, UnknownFields& unknown)
      : scheduler_(executor, limits), options_(options), job_(job), unknown_(unknown) {}

  SchedulerCounts run() {
    while (!interrupted_by()) {
      take_lines();
      if (scheduler_.idle()) break;
      for (GenerationEvent& event : scheduler_.step()) take_event(event);
      job_.show_progress();
    }
    return scheduler_.counts();
  }

 private:
  // Reads lines until as many texts wait as may be computed at a time.
  void take_lines() {
    while (!ended_ && scheduler_.waiting() < scheduler_.limits().sequences &&
           !job_.writer().too_far_ahead(job_.input().lines())) {
      std::optional<JobLine> line = job_.input().next();
      ended_ = !line;
      if (line) take(std::move(*line));
    }
  }

  void take(JobLine line) {
    auto job = std::make_unique<EmbedJob>();
    static_cast<JobLine&>(*job) = std::move(line);
    try {
      if (!job->problem) read(*job);
    } catch (const LineError& error) {
      job->problem = error.problem();
    } catch (const Error& error) {  // of the tokenizer, about this text
      job->problem = LineProblem{"invalid_request", error.what()};
    }
    job->json = nullptr;
    if (job->problem) return finish(*job);
    job->open = job->texts.size();
    EmbedJob& kept = *job;
    jobs_.emplace(&kept, std::move(job));
    for (EmbedText& text : kept.texts) scheduler_.add(text);
  }

  void read(EmbedJob& job) {
    EmbedRequest& request = job.request;
    if (options_.text) {
      request.texts = {{std::move(job.text), {}, false}};
    } else {
      std::vector<std::string> unknown;
      std::string url;
      const Json& body = line_body(job.json, kUrls, url, unknown);
      request = read_embed_request(body, url, unknown);
      unknown_.add(std::move(unknown));
    }
    if (options_.rows_alike) check_row(request);
    if (request.dimensions == 0) request.dimensions = options_.dimensions;
    check_dimensions(request, options_.dim);
    for (size_t i = 0; i < request.texts.size(); ++i) {
      add_text(job, embed_ids(request, i, options_.tokenizer, options_.choice));
      if (!request.return_documents) request.texts[i] = {};
    }
  }

  void check_row(EmbedRequest& request) const {
    if (request.ranking) fail_request("a .npy holds vectors, not rankings");
    if (request.dimensions > 0 && request.dimensions != options_.dimensions) {
      fail_request("field 'dimensions': the rows of a .npy are equally long; --dimensions sets it");
    }
    request.base64 = true;
  }

  void add_text(EmbedJob& job, std::vector<int32_t> ids) {
    if (ids.empty()) fail_request("a text is empty, and the model has no token to begin with");
    for (const int32_t id : ids) {
      if (id >= options_.vocab) {
        fail_request(
            concat("token id ", id, " is outside of the model's vocabulary of ", options_.vocab));
      }
    }
    fit(job, ids);
    job.tokens += std::ssize(ids);
    EmbedText& text = job.texts.emplace_back();
    text.job = &job;
    text.prompt = std::move(ids);
    text.streams = {0};
    text.pooling = options_.choice.pooling;
  }

  // The token that the tokenizer puts behind every text stays the last one: `last` pools it.
  void fit(EmbedJob& job, std::vector<int32_t>& ids) const {
    const int64_t extra = std::ssize(ids) - options_.context;
    if (extra <= 0) return;
    if (!options_.truncate) {
      throw LineError(
          "context_length_exceeded",
          concat("a text is ", ids.size(), " tokens long, but the model's context holds ",
                 options_.context, "; --on-overflow truncate-right drops the last"));
    }
    const bool ended = options_.tokenizer && options_.tokenizer->special().add_eos &&
                       ids.back() == options_.tokenizer->special().eos;
    ids.erase(ids.end() - extra - ended, ids.end() - ended);
    job.cut += extra;
  }

  void take_event(GenerationEvent& event) {
    EmbedText& text = static_cast<EmbedText&>(*event.generation);
    EmbedJob& job = *text.job;
    if (event.kind == GenerationEvent::Kind::Vector) text.vector = std::move(event.vector);
    if (event.kind != GenerationEvent::Kind::End) return;
    if (event.ending == Ending::Failed && !job.problem) {
      job.problem = LineProblem{"failed", std::move(event.problem)};
    }
    if (--job.open > 0) return;
    finish(job);
    jobs_.erase(&job);
  }

  void finish(EmbedJob& job) {
    job_.writer().write(job.turn, result_line(job));
    if (job.problem) {
      job_.fail(job.line, *job.problem);
    } else {
      ++job_.counts().done;
      job_.counts().tokens_in += job.tokens;
      job_.add_latency(std::chrono::duration<double>(Progress::Clock::now() - job.taken).count());
    }
  }

  std::string result_line(EmbedJob& job) const {
    EmbedResult result;
    for (EmbedText& text : job.texts) result.vectors.push_back(std::move(text.vector));
    result.tokens = job.tokens;
    result.cut = job.cut;
    result.model = job.request.model.empty() ? options_.model : job.request.model;
    result.normalize = options_.choice.normalize;
    if (options_.plain) return plain_result(job, [&] { return embed_fields(job.request, result); });
    return openai_result(job, [&] { return embed_body(job.request, result, job.request_hash); });
  }

  Scheduler scheduler_;
  const EmbedOptions& options_;
  JobRun& job_;
  UnknownFields& unknown_;
  bool ended_ = false;  // the input has no more lines
  std::unordered_map<const EmbedJob*, std::unique_ptr<EmbedJob>> jobs_;
};

}  // namespace

SchedulerCounts run_embedding(Executor& executor, const SchedulerLimits& limits,
                              const EmbedOptions& options, JobRun& job, UnknownFields& unknown) {
  return Embedding(executor, limits, options, job, unknown).run();
}

}  // namespace skald
