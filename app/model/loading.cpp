#include "app/model/loading.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "app/files/signals.h"
#include "app/terminal/progress.h"
#include "app/terminal/terminal.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/convert/quantized.h"

namespace skald {
namespace {

using Bytes = std::span<const std::byte>;

// The bytes of all tensors, sorted by address, which is the order in the files.
std::vector<Bytes> ranges(const WeightFile& weights) {
  std::vector<Bytes> all;
  for (const Tensor& tensor : weights.tensors()) {
    if (!tensor.view.data) continue;
    all.push_back({tensor.view.data, static_cast<size_t>(tensor.view.bytes())});
  }
  std::sort(all.begin(), all.end(), [](Bytes a, Bytes b) { return a.data() < b.data(); });
  return all;
}

std::byte* page_start(const std::byte* at) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(at) / page * page);
}

// Samples pages spread evenly over the ranges. True if all sampled pages are in memory.
bool seem_resident(const std::vector<Bytes>& all, int64_t bytes) {
  constexpr int64_t kSamples = 256;
  const int64_t step = std::max<int64_t>(bytes / kSamples, 1);
  int64_t next = 0, before = 0;
  for (const Bytes range : all) {
    for (; next - before < std::ssize(range); next += step) {
      unsigned char resident = 1;
      if (mincore(page_start(range.data() + (next - before)), 1, &resident) != 0) return true;
      if ((resident & 1) == 0) return false;
    }
    before += std::ssize(range);
  }
  return true;
}

}  // namespace

void LoadingBar::show(int64_t bytes, int64_t of) {
  if (of <= 0 || !progress_.is_due()) return;
  progress_.show(loading_text(label_, bytes, of, stderr_columns()));
}

std::string loading_text(std::string_view label, int64_t bytes, int64_t of, int columns) {
  constexpr size_t kBar = 20, kLongestLabel = 30;
  const double share = std::clamp(static_cast<double>(bytes) / static_cast<double>(of), 0.0, 1.0);
  char percent[16], amount[64];
  std::snprintf(percent, sizeof percent, "%3.0f %%", 100 * share);
  std::snprintf(amount, sizeof amount, ", %.1f of %.1f GB", static_cast<double>(bytes) / 1e9,
                static_cast<double>(of) / 1e9);
  const auto filled = static_cast<size_t>(share * kBar);
  const std::string bar =
      concat("[", std::string(filled, '#'), std::string(kBar - filled, ' '), "] ");
  std::string text = percent;
  const auto fits = [&](const std::string& longer) {
    return longer.size() < static_cast<size_t>(std::max(columns, 0));
  };
  for (const std::string& longer :
       {bar + percent, bar + percent + amount,
        concat(printable(label, kLongestLabel), " ", bar, percent, amount)}) {
    if (fits(longer)) text = longer;
  }
  return text;
}

Model make_weights(const Model& model, int threads) {
  ByteProgress progress;
  MakeOptions options;
  options.threads = threads;
  options.progress = [&](int64_t bytes, int64_t of, std::string_view tensor) {
    if (interrupted_by()) fail_interrupted("while making the model's weights");
    progress.show(bytes, of, tensor);
  };
  return made_model(model, options);
}

void read_weights(const Model& model, const MemoryPlan& plan, LoadingBar& bar) {
  const WeightFile& weights = *model.weights;
  if (!weights.mapped() || plan.needed() > plan.available) return;
  const std::vector<Bytes> all = ranges(weights);
  const int64_t bytes = weights.bytes();
  if (seem_resident(all, bytes)) return;
  constexpr size_t kPart = 8 << 20;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  int64_t done = 0;
  for (const Bytes range : all) {
    for (size_t at = 0; at < range.size(); at += kPart) {
      if (interrupted_by()) return;
      const Bytes part = range.subspan(at, std::min(kPart, range.size() - at));
      const Bytes ahead = range.subspan(at, std::min(2 * kPart, range.size() - at));
      std::byte* start = page_start(ahead.data());
      madvise(start, static_cast<size_t>(ahead.data() + ahead.size() - start), MADV_WILLNEED);
      for (size_t i = 0; i < part.size(); i += page) {
        const volatile std::byte* touched = part.data() + i;
        (void)*touched;
      }
      done += std::ssize(part);
      bar.show(done, bytes);
    }
  }
}

}  // namespace skald
