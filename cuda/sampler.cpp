#include "cuda/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/check.h"
#include "cuda/kernels/built_for.h"
#include "engine/error.h"
#include "engine/rng.h"
#include "engine/token_weight.h"

namespace skald::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The one that a bias makes sure, if it is the only bias; else -1.
int32_t forced_token(const SamplingParams& params) {
  const auto& biases = params.logit_bias;
  return biases.size() == 1 && biases[0].second == kInfinity ? biases[0].first : -1;
}

// Tokens beyond its end are not allowed.
void copy_mask(std::span<const uint64_t> allowed, std::span<uint64_t> words) {
  const size_t known = std::min(allowed.size(), words.size());
  std::copy_n(allowed.begin(), known, words.begin());
  std::fill(words.begin() + static_cast<std::ptrdiff_t>(known), words.end(), 0);
}

}  // namespace

bool samples_on_device(const SamplingParams& params) {
  if (params.top_logprobs <= kMostTopTokens && forced_token(params) >= 0) return true;
  if (params.typical_p < 1 || params.top_logprobs > kMostTopTokens) return false;
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
  // Code for clusters is built for sm_90a alone. 16 blocks are hardly faster for a few rows.
  constexpr int kClusterBlocks = 8;
  const bool clusters = kHasSm90a && compute_capability == 90;
  return {clusters ? kClusterBlocks : 1, attribute(cudaDevAttrMultiProcessorCount),
          attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)};
}

DeviceSampler::DeviceSampler(int64_t vocab, int64_t rows, const SampleGpu& gpu)
    : vocab_(vocab),
      most_rows_(rows),
      gpu_(gpu),
      host_table_(sample_settings_bytes(rows, vocab), "sampling"),
      device_table_(sample_settings_bytes(rows, vocab), "sampling"),
      host_results_(sample_result_bytes(rows), "sampling"),
      device_results_(sample_result_bytes(rows), "sampling") {}

// Sorted by token, biases of one token in the order given, as each entry rounds.
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
  // A token's count goes before its biases: the first entry is asked for it.
  std::stable_sort(adjustments, adjustments + count,
                   [](const TokenAdjustment& a, const TokenAdjustment& b) {
                     return a.token != b.token ? a.token < b.token : a.count > b.count;
                   });
  return count;
}

SampleRow DeviceSampler::row_of(int64_t row, const PickRequest& request,
                                TokenAdjustment* adjustments) {
  const SamplingParams& params = *request.params;
  const SampleContext& context = request.context;
  check(context.position >= 0 && context.position <= kMaxRandomPosition, "a position to sample at");
  SampleRow result = {};
  result.row = row;
  result.mask = -1;
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

void DeviceSampler::pick(float* logits, std::span<const PickRequest> requests,
                         const HostLogits& host_logits, Stream stream,
                         std::vector<Picked>& picked) {
  check(static_cast<int64_t>(requests.size()) <= most_rows_, "rows that the sampler has room for");
  const int most_masked = most_rows_in_shared(vocab_, gpu_);
  const auto on_device = [&](const PickRequest& request) {
    return vocab_ <= kMostWeighedTokens && samples_on_device(*request.params) &&
           (request.context.allowed.empty() ||
            (most_masked > 0 && forced_token(*request.params) < 0));
  };
  const auto rows = std::count_if(requests.begin(), requests.end(), on_device);
  const auto masked = std::count_if(requests.begin(), requests.end(), [&](const auto& request) {
    return on_device(request) && !request.context.allowed.empty();
  });
  auto* settings = host_table_.as<SampleRow>();
  auto* masks = reinterpret_cast<uint64_t*>(settings + rows);
  auto* adjustments = reinterpret_cast<TokenAdjustment*>(masks + masked * mask_words(vocab_));
  int32_t adjusted = 0, with_mask = 0;
  int count = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!on_device(requests[i])) continue;
    SampleRow row = row_of(static_cast<int64_t>(i), requests[i], adjustments + adjusted);
    row.first_adjustment = adjusted;
    adjusted += row.adjustments;
    if (!requests[i].context.allowed.empty()) {
      row.mask = with_mask++;
      copy_mask(requests[i].context.allowed,
                {masks + row.mask * mask_words(vocab_), static_cast<size_t>(mask_words(vocab_))});
    }
    settings[count++] = row;
  }
  if (count > 0) {
    // As on the host, one after the other.
    auto* sent = device_table_.as<SampleRow>();
    auto* sent_masks = reinterpret_cast<uint64_t*>(sent + rows);
    auto* sent_adjustments =
        reinterpret_cast<TokenAdjustment*>(sent_masks + masked * mask_words(vocab_));
    const auto bytes = reinterpret_cast<const char*>(adjustments + adjusted) -
                       reinterpret_cast<const char*>(settings);
    SKALD_CUDA(cudaMemcpyAsync(sent, settings, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                               stream));
    const int together = masked > 0 ? most_masked : count;
    for (int first = 0; first < count; first += together) {
      const int some = std::min(together, count - first);
      launch_sample({logits, vocab_, sample_shape(vocab_, some, gpu_), sent + first, some,
                     sent_masks, sent_adjustments, device_results_.as<SampleResult>() + first},
                    stream);
    }
    SKALD_CUDA(cudaMemcpyAsync(host_results_.as<void>(), device_results_.as<void>(),
                               static_cast<size_t>(sample_result_bytes(rows)),
                               cudaMemcpyDeviceToHost, stream));
    SKALD_CUDA(cudaStreamSynchronize(stream));
  }
  const SampleResult* result = host_results_.as<SampleResult>();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (on_device(requests[i])) {
      picked.push_back(finish(*result++));
    } else {
      picked.push_back(sampler_.pick(host_logits(static_cast<int64_t>(i)), *requests[i].params,
                                     requests[i].context));
    }
  }
}

}  // namespace skald::cuda
