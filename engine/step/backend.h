// An Executor is a model on one device, with weights, buffers and KV cache in place. It runs steps;
// a step has rows of several sequences. Chunked prefill, batches and scoring all consist of steps.
// One thread at a time may use an executor; several executors in one process are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/check.h"
#include "engine/memory/kv_pages.h"
#include "engine/memory/memory_plan.h"
#include "engine/program/model.h"
#include "engine/quant/cache_row.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/score.h"

namespace skald {

// A 16-bit copy of quantized weights on a GPU, for steps of many rows. Without the copy, each such
// step expands a part of a matrix at a time. Auto: a copy if half of the memory stays free.
enum class PrefillCopy : uint8_t { Auto, On, Off };

inline constexpr int kAllLayers = 1 << 30;

// A place for matrices that the user chooses. Gpu: the GPU's memory. The others: the host's memory.
// Cpu: in steps of few rows the CPU computes with them, if it can. Stream: the GPU alone computes
// with them.
enum class WeightPlace : uint8_t { Gpu, Cpu, Stream };
struct WeightRule {
  std::string text;  // as the user gave it, for messages: "--cpu-moe"
  WeightPlace place = WeightPlace::Cpu;
  std::function<bool(std::string_view tensor)> matches = {};  // a tensor's name as in a WeightFile
};

struct RunOptions {
  // The following options change the output.
  bool exact = false;  // float32 activations, sums and cache for every format of weights
  // The types of keys and values in the cache. Empty: the backend's choice.
  CacheTypeRequest cache_types = {};
  // A sequence's results do not depend, to the last bit, on other sequences of its steps, nor on
  // its division into steps. The CPU always works like this; a GPU is slower with it.
  bool reproducible = false;

  // The following options change only speed and memory.
  int64_t context = 0;
  int64_t tokens = 0;        // a known lower bound; above short_context it rules that out
  int sequences = 1;         // most sequences at a time
  int checkpoints = 0;       // states kept for Sequence::truncate(), of all sequences together
  int64_t cache_tokens = 0;  // all sequences together; at least context; 0: context for each
  int64_t rows = 512;        // most rows of a step, at least 1; longer prompts take several steps
  bool scores = false;       // sequences will be scored: room for the logits of more rows
  int threads = 0;           // 0: one for each core that this process may use
  int executors = 1;         // that share the host's memory, each with a GPU of its own
  MemoryCap memory;          // bound on the memory taken from the device
  PrefillCopy prefill_copy = PrefillCopy::Auto;
  // Layers whose matrices stay in a GPU's memory; the host's memory holds the others. Empty: as
  // many as fit. kAllLayers: all, or the model is refused.
  std::optional<int> gpu_layers = {};
  // The first rule that matches a tensor of an op decides where the op's matrices lie; the GPU's
  // memory that is left goes to the others.
  std::vector<WeightRule> weight_rules = {};
  HostMemoryKind host_memory = HostMemoryKind::Auto;
  // false: in steps of few rows, the CPU computes with some of the weights in the host's memory,
  // while others are copied to the GPU. Results differ by rounding. Never if `reproducible`.
  bool gpu_alone = false;
  int arch_limit = 0;  // GPU kernels for at most this compute capability; 0: the GPU's

  // Called while weights are copied to a GPU: bytes so far, bytes in all. May be empty.
  std::function<void(int64_t bytes, int64_t of)> loading = {};
};

enum class Want : uint8_t { Nothing, LastRow, EveryRow };

struct SeqRows {
  Sequence* sequence;
  std::span<const int32_t> tokens;  // appended to the sequence by the step
  Want want;
  // [tokens, Program::given_cols()]: what the Given ops of such programs give for each row.
  std::span<const float> given = {};
};
using Step = std::span<const SeqRows>;

struct PickRequest {
  const SamplingParams* params;
  SampleContext context;
};

// The result of pick_and_run().
struct Picks {
  std::vector<Picked> picked;  // one for each request
  int64_t step = 0;            // the number of the step that was begun; 0: none
};

// Counts where a GPU found the experts that its steps of few rows chose, if it has a cache of
// experts. Each expert counts once a step and layer.
struct ExpertUse {
  int64_t found = 0;   // in the cache
  int64_t copied = 0;  // on the host, and copied to the cache
  int64_t others = 0;  // on the host; the CPU computed with them, or kernels read them there

  int64_t all() const { return found + copied + others; }
};

// A page of the cache, or the recurrent state in a slot (Sequence::state()), and the memory of the
// host that its bytes are copied to or from.
enum class CacheKind : uint8_t { Page, State };
template <class Byte>
struct CachePart {
  CacheKind kind;
  int32_t number;         // of the page or slot
  std::span<Byte> bytes;  // [page_bytes()] or [state_bytes()]
};
using CacheRead = CachePart<std::byte>;
using CacheWrite = CachePart<const std::byte>;

// Receives every buffer as an op writes it, in the order of ops; for `skald diff`.
struct OpOutput {
  size_t op;  // index into Program::ops
  std::string_view name;
  std::span<const float> values;  // [rows, cols]
  int64_t cols;
};
using Observer = std::function<void(const OpOutput&)>;

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const Program& program() const = 0;
  virtual int64_t max_rows() const = 0;
  virtual int64_t context() const = 0;
  virtual PagePool& pages() = 0;
  // `adapter` is a number of the model's adapters; 0 if it has none.
  Sequence new_sequence(int adapter = 0) { return Sequence(pages(), adapter); }

  // Appends the step's tokens to their sequences and returns the number of wanted rows, which keep
  // the step's order. On an Error no sequence has changed.
  virtual int64_t run(Step step) = 0;

  // The logits of a wanted row of the last step. Valid until the next call on the executor.
  virtual std::span<const float> logits(int64_t row) = 0;  // [vocab]
  // The same row after the last norm, in float32: the input of the head. [dim], valid until the
  // next call on the executor.
  virtual std::span<const float> hidden(int64_t row) = 0;
  // What a guessing head reads of the last step: `count` rows from `first` on, wanted or not, in
  // the step's order and in float32. [count, cols of Program::features(kind)], valid until the next
  // call on the executor.
  virtual std::span<const float> features(Features kind, int64_t first, int64_t count);
  // One request for each wanted row, or for each of the first ones.
  virtual std::vector<Picked> pick(std::span<const PickRequest> requests);

  // pick() and at once run() with the picked tokens, so that the device does not wait for the host.
  // `sequences` are the last step's, in its order, with one wanted row each; each grows by its
  // token. The caller truncates a sequence that should not have grown. If no step is begun (the CPU
  // never begins one), this is pick(). Errors are those of pick(), and leave every sequence
  // unchanged.
  virtual Picks pick_and_run(std::span<const PickRequest> requests,
                             std::span<Sequence* const> sequences);
  // The number of the last step. While it equals Picks::step, the wanted rows still belong to the
  // sequences of that pick_and_run().
  virtual int64_t last_step() const { return 0; }

  // The number of rows whose logits are computed together: the requested one and the next ones.
  virtual int64_t logit_rows() const = 0;

  // The score of each wanted row's target token; a target of -1 leaves its row out. At most
  // logit_rows() rows of logits exist at a time.
  virtual std::vector<TokenScore> score(std::span<const int32_t> targets);
  // Compares the same rows with those of `base`: an executor of the same vocabulary that has run
  // the same step.
  virtual std::vector<RowComparison> compare(Executor& base, std::span<const int32_t> targets);

  virtual bool observable() const { return true; }  // false: observe() must not be called
  // A group shows what every rank has whole, such as the residual stream and the logits.
  virtual void observe(Observer observer) = 0;
  virtual const MemoryPlan& plan() const = 0;   // what was allocated
  virtual int64_t bytes_allocated() const = 0;  // cache and workspace, beside the weights
  virtual int64_t cache_bytes_per_token() const = 0;
  virtual CacheTypes cache_types() const = 0;
  // The seconds that a GPU has computed, by its own clock; 0 on the CPU. Waits for running kernels.
  virtual double device_seconds() { return 0; }
  virtual ExpertUse expert_use() { return {}; }  // so far; waits for running kernels
  virtual std::string description() const = 0;   // "cpu (AVX3_DL, 2 threads)"

  // The bytes of cache pages and states, to keep them in a file (Session::read_page()) or in the
  // host's memory (SwapSpace). page_format() names everything besides the model that the bytes
  // depend on: an executor of the same model with an equal format and page size can continue from
  // the bytes. state_bytes() is 0 for models without recurrent states.
  virtual std::string page_format() const = 0;  // "cpu AVX3_DL f16"
  virtual int64_t page_bytes() const = 0;
  virtual int64_t state_bytes() const { return 0; }
  // All copies are done when the call returns. They are fastest with host_memory().
  virtual void read_cache(std::span<const CacheRead> parts) = 0;
  virtual void write_cache(std::span<const CacheWrite> parts) = 0;
  // Memory of the host that is ready to be written. It may outlive the executor. Throws
  // Error(Exit::Memory).
  virtual std::shared_ptr<std::byte> host_memory(int64_t bytes);
  // The same for one page or one state.
  void read_page(int32_t page, std::span<std::byte> bytes);
  void write_page(int32_t page, std::span<const std::byte> bytes);
  void read_state(int32_t slot, std::span<std::byte> bytes);
  void write_state(int32_t slot, std::span<const std::byte> bytes);

 protected:
  // Checks that the memory of a part has the size of a page or state.
  template <class Byte>
  void check_part(const CachePart<Byte>& part) const {
    const bool page = part.kind == CacheKind::Page;
    check(page || state_bytes() > 0, "a model has the states that are copied");
    check(std::ssize(part.bytes) == (page ? page_bytes() : state_bytes()),
          "a whole page or state is copied");
  }

 private:
  Sampler sampler_;
};

}  // namespace skald
