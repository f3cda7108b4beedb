// What the ranks of a group use to add up their parts (the op AllReduce) and to join their logits.
// The ranks run the same ops in the same order, each on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace skald {

class Exchange {
 public:
  virtual ~Exchange() = default;
  // For a rank that fails: the others' waits end with an Error. Any thread may call it.
  virtual void abort() noexcept = 0;
  // Ready again after abort(). No rank may be inside a step.
  virtual void reset() = 0;
};

// Between ranks that compute on the host.
class HostExchange : public Exchange {
 public:
  // Every rank calls it with a buffer of the same size. Afterwards each buffer holds the sum, added
  // in the order of ranks, so that it is the same on all. Throws Error after abort().
  virtual void all_reduce(int rank, std::span<float> x) = 0;

  // Every rank calls it with its columns of the same rows. Rank r has the columns from borders[r]
  // on, up to borders[r + 1]; out: all columns of the rows. Throws Error after abort().
  virtual void all_gather(int rank, std::span<float> columns, std::span<const int64_t> borders,
                          std::span<float> out) = 0;
};

// Puts the columns of one rank into the rows that all_gather() makes.
void put_columns(std::span<const float> columns, std::span<const int64_t> borders, size_t rank,
                 std::span<float> out);

// Between ranks whose threads are in one process.
class ThreadExchange final : public HostExchange {
 public:
  explicit ThreadExchange(int ranks) : parts_(static_cast<size_t>(ranks)) {}

  void all_reduce(int rank, std::span<float> x) override;
  void all_gather(int rank, std::span<float> columns, std::span<const int64_t> borders,
                  std::span<float> out) override;
  void abort() noexcept override;
  void reset() override;

 private:
  void meet();  // waits until every rank is here

  std::vector<std::span<float>> parts_;
  std::mutex mutex_;
  std::condition_variable arrival_;
  size_t arrived_ = 0;
  int64_t meetings_ = 0;
  bool aborted_ = false;
};

}  // namespace skald
