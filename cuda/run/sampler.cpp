#include "cuda/run/sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "cuda/gpu/check.h"
#include "cuda/gpu/kernel_code.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/sampling/token_weight.h"

namespace skald::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The token that an infinite bias forces, if it is the only bias; else -1.
int32_t forced_token(const SamplingParams& params) {
  const auto& biases = params.logit_bias;
  return biases.size() == 1 && biases[0].second == kInfinity ? biases[0].first : -1;
}

// Tokens beyond the mask's end are not allowed.
void copy_mask(std::span<const uint64_t> allowed, std::span<uint64_t> words) {
  const size_t known = std::min(allowed.size(), words.size());
  std::copy_n(allowed.begin(), known, words.begin());
  std::fill(words.begin() + static_cast<std::ptrdiff_t>(known), words.end(), 0);
}

}  // namespace

bool samples_on_device(const SamplingParams& params) {
  if (params.top_logprobs <= kMostTopTokens && forced_token(params) >= 0) return true;
  if (!device_can_sample(params) || params.top_logprobs > kMostTopTokens) return false;
  for (const auto& [id, bias] : params.logit_bias) {
    if (bias == kInfinity) return false;
  }
  const bool penalties = penalizes(params);
  if (penalties && params.repeat_last_n < 0) return false;
  const int64_t most_penalized = penalties ? params.repeat_last_n : 0;
  return static_cast<int64_t>(params.logit_bias.size()) + most_penalized <= kMostAdjustments;
}

SampleGpu sample_gpu(int compute_capability) {
  int device = 0;
  SKALD_CUDA(cudaGetDevice(&device));
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    SKALD_CUDA(cudaDeviceGetAttribute(&value, which, device));
    return value;
  };
  // Clusters need code that is built for sm_90a alone. 16 blocks are hardly faster than 8.
  constexpr int kClusterBlocks = 8;
  const bool clusters = runs_on(KernelCode::Sm90a, compute_capability);
  return {clusters ? kClusterBlocks : 1, attribute(cudaDevAttrMultiProcessorCount),
          attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)};
}

DeviceSampler::DeviceSampler(int64_t vocab, int64_t rows, const SampleGpu& gpu)
    : vocab_(vocab),
      most_rows_(rows),
      gpu_(gpu),
      has_greedy_(gpu.most_blocks > 1 && has_sample_greedy(vocab)),
      most_masked_(most_rows_in_shared(vocab, gpu)),
      settings_(sample_settings_bytes(rows, vocab), "sampling"),
      sent_settings_(sample_settings_bytes(rows, vocab), "sampling"),
      results_(sample_result_bytes(rows), "sampling"),
      first_results_(sample_result_bytes(rows), "sampling") {}

bool DeviceSampler::picks_on_device(const PickRequest& request) const {
  const bool masked = !request.context.allowed.empty();
  return vocab_ <= kMostWeighedTokens && samples_on_device(*request.params) &&
         (!masked || (most_masked_ > 0 && forced_token(*request.params) < 0));
}

bool DeviceSampler::picks_at_once(std::span<const PickRequest> requests) const {
  const auto rows = static_cast<int>(requests.size());
  const bool in_shared = sample_shape(vocab_, rows, gpu_).in_shared;
  return rows <= most_rows_ && std::all_of(requests.begin(), requests.end(), [&](const auto& r) {
           return picks_on_device(r) && (in_shared || r.context.allowed.empty());
         });
}

bool DeviceSampler::all_greedy(std::span<const PickRequest> requests) const {
  return has_greedy_ && std::all_of(requests.begin(), requests.end(), [&](const auto& r) {
           const SamplingParams& p = *r.params;
           return picks_on_device(r) && p.temperature == 0 && p.logit_bias.empty() &&
                  !penalizes(p) && p.top_logprobs == 0 && r.context.allowed.empty();
         });
}

// Entries are sorted by token. Biases of one token keep their order, because each addition rounds.
int DeviceSampler::list_adjustments(const PickRequest& request, TokenAdjustment* adjustments) {
  const SamplingParams& params = *request.params;
  int count = 0;
  for (const auto& [id, bias] : params.logit_bias) adjustments[count++] = {id, 0, bias};
  if (penalizes(params)) {
    penalized_.clear();
    for (int32_t id : penalized_history(params, request.context.history)) {
      if (id >= 0 && id < vocab_) penalized_.push_back(id);
    }
    std::sort(penalized_.begin(), penalized_.end());
    for (size_t i = 0; i < penalized_.size();) {
      size_t end = i;
      while (end < penalized_.size() && penalized_[end] == penalized_[i]) ++end;
      adjustments[count++] = {penalized_[i], static_cast<int32_t>(end - i), 0};
      i = end;
    }
  }
  if (params.logit_bias.empty()) return count;
  // A token's count stands in its first entry, before its biases.
  std::stable_sort(adjustments, adjustments + count,
                   [](const TokenAdjustment& a, const TokenAdjustment& b) {
                     return a.token != b.token ? a.token < b.token : a.count > b.count;
                   });
  return count;
}

SampleRow DeviceSampler::row_of(const PickRequest& request, TokenAdjustment* adjustments) {
  const SamplingParams& params = *request.params;
  const SampleContext& context = request.context;
  check(context.position >= 0 && context.position <= kMaxRandomPosition, "a position to sample at");
  SampleRow result = {};
  result.masked = !context.allowed.empty();
  result.forced = forced_token(params);
  result.u = uniform(params.seed, context.request, context.position);
  result.temperature = params.temperature;
  result.top_p = params.top_p;
  result.log_min_p = params.min_p > 0 ? std::log(params.min_p) : -kInfinity;
  result.top_k = params.top_k > 0 && params.top_k < vocab_ ? params.top_k : 0;
  result.repeat_penalty = params.repeat_penalty;
  result.presence_penalty = params.presence_penalty;
  result.frequency_penalty = params.frequency_penalty;
  if (result.forced < 0) result.adjustments = list_adjustments(request, adjustments);
  result.top_tokens = params.top_logprobs;
  return result;
}

Picked DeviceSampler::finish(const SampleResult& result) const {
  switch (result.status) {
    case SampleStatus::UnderWay:
      check(false, "a pick that is read has ended");
      break;
    case SampleStatus::Picked:
      break;
    case SampleStatus::NotFinite:
      sampling::fail_not_finite(result.bad, vocab_, result.first_bad);
    case SampleStatus::AllMasked:
      sampling::fail_all_masked(vocab_);
    case SampleStatus::AllForbidden:
      sampling::fail_all_forbidden();
    case SampleStatus::AllBanned:
      sampling::fail_all_banned();
  }
  Picked picked;
  picked.token = result.token;
  picked.logprob = log_share(result.logit, result.best, result.total);
  for (int i = 0; i < result.top_tokens; ++i) {
    const TopToken& top = result.top[i];
    picked.top.emplace_back(top.token, log_share(top.logit, result.best, result.total));
  }
  return picked;
}

void DeviceSampler::set(std::span<const PickRequest> requests, std::span<const NextRow> next,
                        Stream stream) {
  check(std::ssize(requests) <= most_rows_, "rows that the sampler has room for");
  for (size_t i = 0; i < requests.size(); ++i) {
    const PickRequest& request = requests[i];
    const auto at = static_cast<int64_t>(i);
    results()[i].status = SampleStatus::UnderWay;
    SampleRow& row = rows()[i];
    row = {};
    row.skipped = !picks_on_device(request);
    if (row.skipped) continue;
    row = row_of(request, adjustments(at));
    if (row.masked) {
      copy_mask(request.context.allowed, {mask(at), static_cast<size_t>(mask_words(vocab_))});
    }
    if (!next.empty()) row.next = next[i];
  }
  send(std::ssize(requests));
  SKALD_CUDA(cudaStreamWaitEvent(stream, settings_event_, 0));
}

// Copies the settings of the first `rows` rows to the device. Masks and adjustments are copied only
// for rows that have some.
void DeviceSampler::send(int64_t rows) {
  const auto copy = [&](auto* first, size_t bytes) {
    SKALD_CUDA(cudaMemcpyAsync(on_device(first), first, bytes, cudaMemcpyHostToDevice, beside_));
  };
  const SampleRow* const settings = this->rows();
  copy(this->rows(), static_cast<size_t>(rows) * sizeof(SampleRow));
  for (int64_t row = 0; row < rows; ++row) {
    if (settings[row].masked) {
      copy(mask(row), static_cast<size_t>(mask_words(vocab_)) * sizeof(uint64_t));
    }
    if (settings[row].adjustments > 0) {
      copy(adjustments(row),
           static_cast<size_t>(settings[row].adjustments) * sizeof(TokenAdjustment));
    }
  }
  SKALD_CUDA(cudaEventRecord(settings_event_, beside_));
}

SampleLaunch DeviceSampler::launch_of(float* logits, int first, int count) const {
  SampleLaunch launch = {};
  launch.logits = logits + first * vocab_;
  launch.vocab = vocab_;
  launch.shape = sample_shape(vocab_, count, gpu_);
  launch.count = count;
  launch.rows = on_device(rows() + first);
  launch.masks = on_device(mask(first));
  launch.adjustments = on_device(adjustments(first));
  launch.results = results() + first;
  return launch;
}

void DeviceSampler::sample(const SampleLaunch& launch, bool greedy, Stream stream) const {
  greedy ? launch_sample_greedy(launch, stream) : launch_sample(launch, stream);
}

// Writing to the host's memory would take this kernel 1 us more. A second kernel does it, beside
// the kernels that follow.
void DeviceSampler::launch(const Rows& rows, const NextStep& next, Stream stream) const {
  SampleLaunch launch = launch_of(rows.logits, 0, rows.count);
  launch.results = first_results_.as<SampleResult>();
  launch.results_on_host = false;
  launch.next = next;
  sample(launch, rows.greedy, stream);
  SKALD_CUDA(cudaEventRecord(pick_event_, stream));
  SKALD_CUDA(cudaStreamWaitEvent(beside_, pick_event_, 0));
  launch_copy_results(launch.results, results(), rows.count, beside_);
  SKALD_CUDA(cudaEventRecord(results_event_, beside_));
}

void DeviceSampler::end_launch(Stream stream) const {
  SKALD_CUDA(cudaStreamWaitEvent(stream, results_event_, 0));
}

// Polls the result's status instead of the stream: kernels enqueued later may run long.
void DeviceSampler::wait_for(SampleResult& result, Stream stream) const {
  constexpr int kLooksBetweenQueries = 10000;
  const std::atomic_ref<SampleStatus> status(result.status);
  for (int looks = 1; status.load(std::memory_order_acquire) == SampleStatus::UnderWay; ++looks) {
    if (looks % kLooksBetweenQueries != 0) continue;
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaErrorNotReady) {
      std::this_thread::yield();
    } else {
      SKALD_CUDA(state);
      check(status.load() != SampleStatus::UnderWay, "a sampler that has ended says so");
    }
  }
}

void DeviceSampler::wait(int64_t rows, Stream stream, std::vector<Picked>& picked) const {
  for (int64_t i = 0; i < rows; ++i) wait_for(results()[i], stream);
  for (int64_t i = 0; i < rows; ++i) picked.push_back(finish(results()[i]));
}

void DeviceSampler::pick(float* logits, std::span<const PickRequest> requests,
                         const HostLogits& host_logits, Stream stream,
                         std::vector<Picked>& picked) {
  set(requests, {}, stream);
  const auto count = static_cast<int>(requests.size());
  const bool any = std::any_of(requests.begin(), requests.end(),
                               [&](const auto& request) { return picks_on_device(request); });
  const bool masked = std::any_of(requests.begin(), requests.end(), [](const auto& request) {
    return !request.context.allowed.empty();
  });
  const int together = masked && most_masked_ > 0 ? most_masked_ : count;
  const bool greedy = all_greedy(requests);
  for (int first = 0; first < count && any; first += together) {
    sample(launch_of(logits, first, std::min(together, count - first)), greedy, stream);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!rows()[i].skipped) wait_for(results()[i], stream);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    picked.push_back(rows()[i].skipped ? sampler_.pick(host_logits(static_cast<int64_t>(i)),
                                                       *requests[i].params, requests[i].context)
                                       : finish(results()[i]));
  }
}

}  // namespace skald::cuda
