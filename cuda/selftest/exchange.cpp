// Tests the exchange between the GPUs of this machine: sums, and columns that are joined. All
// numbers are integers that each form of a letter holds exactly, so every result has to be exact.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/exchange/peer_threads.h"
#include "cuda/kernels/exchange/all_gather.h"
#include "cuda/kernels/exchange/all_reduce.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

struct ExchangeCase {
  std::string text;
};
std::string label(const ExchangeCase& c) { return c.text; }

float number_of(int rank, int64_t i) {
  return static_cast<float>((i * 37 + rank * 101) % 2001 - 1000);
}

// The largest difference between `found` on the GPU and expected(i).
template <class Expected>
double worst(const DeviceMemory& found, int64_t count, const Expected& expected) {
  std::vector<float> numbers(static_cast<size_t>(count));
  SKALD_CUDA(cudaMemcpy(numbers.data(), found.as<void>(), numbers.size() * sizeof(float),
                        cudaMemcpyDeviceToHost));
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double off = std::abs(double{numbers[static_cast<size_t>(i)]} - expected(i));
    if (!(off <= most)) most = off;  // also NaN
  }
  return most;
}

// On the kernels' stream, which does not wait for others.
void send(const DeviceMemory& to, int64_t count, const std::function<float(int64_t)>& number,
          Stream stream) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = number(i);
  SKALD_CUDA(cudaMemcpyAsync(to.as<void>(), numbers.data(), numbers.size() * sizeof(float),
                             cudaMemcpyHostToDevice, stream));
  SKALD_CUDA(cudaStreamSynchronize(stream));
}

// Runs on every rank, and gives the worst error of all.
template <class Test>
double worst_of_ranks(PeerThreads& threads, const Test& test) {
  std::vector<double> errors(static_cast<size_t>(threads.ranks()));
  threads.run([&](int rank, const MailLinks& mail, Stream stream) {
    errors[static_cast<size_t>(rank)] = test(mail, stream);
  });
  double most = 0;
  for (const double error : errors) {
    if (!(error <= most)) most = error;
  }
  return most;
}

constexpr const char* kPurpose = "the self-test";

double sum_error(PeerThreads& threads, int64_t count, bool rounds, bool adds) {
  return worst_of_ranks(threads, [&](const MailLinks& mail, Stream stream) {
    const DeviceMemory in(count * 4, kPurpose), out(count * 4, kPurpose);
    send(
        in, count, [&](int64_t i) { return number_of(mail.rank, i); }, stream);
    send(
        out, count, [&](int64_t i) { return number_of(9, i); }, stream);
    AllReduceLaunch launch = {};
    launch.in = in.as<float>();
    launch.out = out.as<float>();
    launch.count = count;
    launch.scale = 2;
    launch.adds = adds;
    launch.rounds = rounds;
    launch.mail = mail;
    launch_all_reduce(launch, stream);
    SKALD_CUDA(cudaStreamSynchronize(stream));
    return worst(out, count, [&](int64_t i) {
      double sum = 0;
      for (int rank = 0; rank < mail.ranks; ++rank) sum += number_of(rank, i);
      return adds ? 2 * sum + number_of(9, i) : sum;
    });
  });
}

// Parts that differ in size.
std::vector<int64_t> borders_of(int64_t cols, int ranks) {
  std::vector<int64_t> borders;
  for (int rank = 0; rank < ranks; ++rank) borders.push_back(cols * rank / ranks / 3 * 3);
  borders.push_back(cols);
  return borders;
}

double join_error(PeerThreads& threads, int64_t rows, int64_t cols) {
  return worst_of_ranks(threads, [&](const MailLinks& mail, Stream stream) {
    AllGatherLaunch launch = {};
    const std::vector<int64_t> borders = borders_of(cols, mail.ranks);
    std::copy(borders.begin(), borders.end(), launch.first);
    launch.mail = mail;
    const int64_t own = launch.cols(mail.rank);
    const DeviceMemory in(rows * own * 4, kPurpose), out(rows * cols * 4, kPurpose);
    const auto number = [&](int64_t i) {
      return number_of(0, i / own * cols + launch.first[mail.rank] + i % own);
    };
    send(in, rows * own, number, stream);
    SKALD_CUDA(cudaMemsetAsync(out.as<void>(), 0xff, static_cast<size_t>(out.bytes()), stream));
    launch.in = in.as<float>();
    launch.out = out.as<float>();
    launch.rows = rows;
    launch_all_gather(launch, stream);
    SKALD_CUDA(cudaStreamSynchronize(stream));
    return worst(out, rows * cols, [](int64_t i) { return double{number_of(0, i)}; });
  });
}

}  // namespace

void test_exchange(std::span<const int> devices, selftest::Report& report) {
  PeerThreads threads({devices.begin(), devices.end()});
  const auto add = [&](std::string_view kernel, std::string text, double error) {
    report.add(selftest::Sort::Exchange, ExchangeCase{std::move(text)},
               {kernel, DType::F32, error, 0, true, {}});
  };
  constexpr int64_t kFew = MailLayout::kFewFloats;
  // On one GPU, the blocks of all ranks must fit at once, since they wait for one another.
  const bool apart = std::adjacent_find(devices.begin(), devices.end()) == devices.end();
  constexpr int64_t kMostOnOne = 1'000'000;
  // The last count takes several letters of each block, in both forms.
  constexpr int64_t kLetters = int64_t{8'000'005};
  for (const int64_t count : {int64_t{1}, int64_t{2047}, kFew, kFew + 1, kMostOnOne, kLetters}) {
    for (const bool rounds : {false, true}) {
      for (const bool adds : {false, true}) {
        if ((rounds && count <= kFew) || (!apart && count > kMostOnOne)) continue;
        add("all_reduce",
            concat(count, " numbers", rounds ? ", in 16 bits" : "", adds ? ", added" : ""),
            sum_error(threads, count, rounds, adds));
      }
    }
  }
  struct Rows {
    int64_t rows, cols;
  };
  for (const auto& [rows, cols] :
       {Rows{1, 1000}, Rows{3, 32003}, Rows{1, 128256}, Rows{16, 32003}, Rows{70, 128256}}) {
    if (!apart && rows * cols > kMostOnOne) continue;
    add("all_gather", concat(rows, " rows of ", cols), join_error(threads, rows, cols));
  }
}

}  // namespace skald::cuda
