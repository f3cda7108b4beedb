#include "models/random/random_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/error.h"
#include "engine/base/rng.h"
#include "engine/base/size_text.h"
#include "engine/cpu/machine.h"
#include "engine/cpu/thread_pool.h"
#include "engine/quant/block_scales.h"
#include "models/random/random_plan.h"

namespace skald {
namespace {

class RandomWeights final : public WeightFile {
 public:
  RandomWeights(const RandomShape& shape, const RandomType& type, RandomFill fill)
      : WeightFile(concat("random ", shape.name, " ", type.name)), fill_(fill) {
    RandomPlan plan = plan_weights(shape, type);
    const bool filled = fill == RandomFill::Noise;
    if (filled) make_memory(plan.bytes);
    for (const PlannedTensor& p : plan.tensors) {
      std::vector<int64_t> dims{p.rows, p.cols};
      if (p.stacked > 0) dims = {p.stacked, p.rows / p.stacked, p.cols};
      add({p.name, std::move(dims), view(p), path()});
    }
    if (filled) fill_tensors(std::move(plan.tensors));
  }

  // Weights without memory stand for a file of that shape, which would be mapped.
  bool mapped() const override { return fill_ == RandomFill::Nothing; }

 private:
  void make_memory(int64_t bytes) {
    const int64_t machine = cpu::machine_memory().free;
    if (bytes > machine) {
      fail(Exit::Memory, path(), ": needs ", size_text(bytes), " of memory, and this machine has ",
           size_text(machine), "; choose a smaller shape or type");
    }
    memory_ = Buffer(bytes, "random weights");
  }

  std::byte* place(const PlannedTensor& p) const { return memory_.data() + p.offset; }
  TensorView view(const PlannedTensor& p) const {
    return {fill_ == RandomFill::Noise ? place(p) : nullptr, p.type, p.rows, p.cols,
            row_bytes(p.type, p.cols)};
  }

  static std::vector<uint32_t> make_noise() {
    std::vector<uint32_t> noise(size_t{1} << 18);
    for (size_t i = 0; i < noise.size(); ++i) {
      noise[i] = static_cast<uint32_t>(0x1p32 * uniform(1, 0, static_cast<int64_t>(i), 0));
    }
    return noise;
  }

  // All threads fill the memory, because most time goes into touching pages for the first time.
  void fill_tensors(std::vector<PlannedTensor> tensors) {
    const std::vector<uint32_t> noise = make_noise();
    const auto bytes = [](const PlannedTensor& p) { return p.rows * row_bytes(p.type, p.cols); };
    std::sort(tensors.begin(), tensors.end(),
              [&](const PlannedTensor& x, const PlannedTensor& y) { return bytes(x) > bytes(y); });
    std::atomic<size_t> next = 0;
    cpu::ThreadPool pool(cpu::available_threads());
    pool.run([&](int, int) {
      for (size_t i; (i = next++) < tensors.size();) {
        const PlannedTensor& p = tensors[i];
        if (p.name.ends_with(".bias")) {
          std::memset(place(p), 0, static_cast<size_t>(bytes(p)));
        } else if (p.rows == 1) {
          std::fill_n(reinterpret_cast<float*>(place(p)), p.cols, 1.0f);
        } else {
          fill_matrix(place(p), view(p), noise);
        }
      }
    });
  }

  // Weights of about 1 / sqrt(cols) keep the size of activations from layer to layer. The noise is
  // repeated over the memory; each weight still has memory of its own.
  static void fill_matrix(std::byte* data, const TensorView& view,
                          const std::vector<uint32_t>& noise) {
    const DTypeInfo& format = info(view.type);
    const float size = 1.7f / std::sqrt(static_cast<float>(view.cols));
    const int64_t bytes = view.bytes();
    const int64_t noise_bytes = static_cast<int64_t>(noise.size() * sizeof(uint32_t));
    const int64_t filled = std::min(bytes, noise_bytes - noise_bytes % format.block_bytes);
    if (format.block_elems == 1) {
      for (int64_t i = 0; i < filled / format.block_bytes; ++i) {
        const float unit =
            static_cast<float>(noise[static_cast<size_t>(i) % noise.size()]) * 0x1p-31f;
        store(data + i * format.block_bytes, view.type, size * (unit - 1));
      }
    } else {
      std::memcpy(data, noise.data(), static_cast<size_t>(filled));
      // A minimum of half the size makes weights of both signs. All blocks get one scale.
      const BlockScales scales = scales_for(view.type, data, size, -size / 2);
      for (int64_t at = 0; at < filled; at += format.block_bytes) {
        format.set_scales(data + at, scales.scale, scales.min);
      }
    }
    for (int64_t at = filled; at < bytes; at += filled) {
      std::memcpy(data + at, data, static_cast<size_t>(std::min(filled, bytes - at)));
    }
  }

  static void store(std::byte* to, DType type, float value) {
    info(type).encode_row(&value, to, 1, nullptr);
  }

  RandomFill fill_;
  Buffer memory_;
};

}  // namespace

std::shared_ptr<const WeightFile> random_weights(const RandomShape& shape, const RandomType& type,
                                                 RandomFill fill) {
  return std::make_shared<RandomWeights>(shape, type, fill);
}

}  // namespace skald
