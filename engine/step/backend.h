// An Executor is a model made ready on one device: weights bound, buffers and cache allocated. It
// runs steps: rows of several sequences at once, which is all that chunked prompts, batches and
// scoring need. Not thread-safe; several executors in one process are independent.
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

#include "engine/memory/kv_pages.h"
#include "engine/memory/memory_plan.h"
#include "engine/program/model.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/score.h"

namespace skald {

// Whether a GPU keeps a 16-bit copy of quantized weights for steps of many rows; without one it
// makes a part of one at each such step. Auto: where half of the memory stays free.
enum class PrefillCopy : uint8_t { Auto, On, Off };

struct RunOptions {
  // These change the output.
  bool exact = false;  // float32 activations, sums and cache for every format of weights
  // The type of keys and values in the cache. Empty: the backend's choice. The CPU takes F32 and
  // F16. A GPU takes only the type of its activations.
  std::optional<DType> cache_type = {};
  // A sequence's results do not depend, to the last bit, on other sequences of its steps, nor on
  // how it was cut into steps. The CPU always works like this; a GPU is slower with it.
  bool reproducible = false;

  // These change only speed and memory.
  // Tokens a sequence may hold; 0: the model's short context, else its own, or what fits.
  int64_t context = 0;
  int64_t tokens = 0;  // that a sequence will have at least: more than a short context rule it out
  int sequences = 1;   // that exist at a time
  int64_t cache_tokens = 0;  // of all together, at least a context; 0: a full context for each
  int64_t rows = 512;        // at most in one step, and at least 1; longer prompts go in chunks
  bool scores = false;       // whole texts will be scored: room for the logits of more rows
  int threads = 0;           // 0: one for each core that this process may use
  MemoryCap memory;          // most to take of the device's
  PrefillCopy prefill_copy = PrefillCopy::Auto;
  int arch_limit = 0;  // GPU kernels for this compute capability (75, 80, 90) at most; 0: the GPU's

  // Called while weights are copied to a GPU; may be empty.
  std::function<void(int64_t bytes, int64_t of)> loading = {};
};

enum class Want : uint8_t { Nothing, LastRow, EveryRow };

struct SeqRows {
  Sequence* sequence;
  std::span<const int32_t> tokens;  // appended to the sequence by the step
  Want want;
};
using Step = std::span<const SeqRows>;

struct PickRequest {
  const SamplingParams* params;
  SampleContext context;
};

// What pick_and_run() did. `step`: the number of the step that it began; 0: none.
struct Picks {
  std::vector<Picked> picked;  // one a request
  int64_t step = 0;
};

// Sees every buffer as it is written, in the order of ops; for `skald diff`.
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
  Sequence new_sequence() { return Sequence(pages()); }

  // Appends the step's tokens to their sequences and returns the number of wanted rows, which keep
  // the step's order. On an Error no sequence has changed.
  virtual int64_t run(Step step) = 0;

  // The logits of a wanted row of the last step. Valid until the next call on the executor.
  virtual std::span<const float> logits(int64_t row) = 0;  // [vocab]
  // The same row after the last norm, in float32: what the head multiplies. [dim], valid until the
  // next call on the executor.
  virtual std::span<const float> hidden(int64_t row) = 0;
  virtual std::vector<Picked> pick(std::span<const PickRequest> requests);  // one a wanted row

  // pick(), and at once run() of what was picked, so that the device need not wait until its tokens
  // are read: `sequences` are those of the last run in its order, of each of which one row was
  // wanted, and each grows by its token. What turns out not to be wanted is dropped by truncating.
  // Without a step (here always: a CPU gives each token out before it computes the next) it is
  // pick(). Errors are pick()'s, and then no sequence has changed.
  virtual Picks pick_and_run(std::span<const PickRequest> requests,
                             std::span<Sequence* const> sequences);
  // The last step's, where steps have numbers: while it is the one of Picks, the wanted rows are
  // still those of the sequences.
  virtual int64_t last_step() const { return 0; }

  // How many rows get their logits at once: the one that is asked for, and those after it.
  virtual int64_t logit_rows() const = 0;

  // What each wanted row says of its target token; a target of -1 leaves its row out. No more than
  // logit_rows() rows of logits exist at a time, whatever the text's length.
  virtual std::vector<TokenScore> score(std::span<const int32_t> targets);
  // The same beside `base`, an executor of the same vocabulary that has run the same step.
  virtual std::vector<RowComparison> compare(Executor& base, std::span<const int32_t> targets);

  virtual void observe(Observer observer) = 0;
  virtual const MemoryPlan& plan() const = 0;   // by which memory was allocated
  virtual int64_t bytes_allocated() const = 0;  // cache and workspace, beside the weights
  virtual int64_t cache_bytes_per_token() const = 0;
  virtual DType cache_type() const = 0;
  // That a GPU has computed, as its own clock has it; 0 on the CPU. Waits for what is under way.
  virtual double device_seconds() { return 0; }
  virtual std::string description() const = 0;  // "cpu (AVX3_DL, 2 threads)"

  // A cache page's contents, to be kept in a file (Session::read_page()). page_format() names what
  // the bytes depend on beside the model: an executor of the same model whose format and page size
  // are equal goes on from them as if it had computed them.
  virtual std::string page_format() const = 0;  // "cpu AVX3_DL f16"
  virtual int64_t page_bytes() const = 0;
  virtual void read_page(int32_t page, std::span<std::byte> bytes) = 0;  // [page_bytes()]
  virtual void write_page(int32_t page, std::span<const std::byte> bytes) = 0;

 private:
  Sampler sampler_;
};

}  // namespace skald
