#include "tokenizer/text/merges.h"

#include <random>

#include "tests/catch.h"

namespace skald::test {
namespace {

using Ids = std::vector<int32_t>;

// The definition, step by step.
Ids merged_slowly(const Merges& merges, Ids ids) {
  while (true) {
    size_t best = 0;
    Merges::Merge lowest;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merges::Merge merge = merges.find(ids[i], ids[i + 1]);
      if (merge.rank < lowest.rank) {
        lowest = merge;
        best = i;
      }
    }
    if (lowest.rank == Merges::kNone) return ids;
    ids[best] = lowest.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST_CASE("lists of any length merge as defined") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Merges merges;
    const uint32_t letters = 1 + random() % 4, count = random() % 40;
    int32_t next = static_cast<int32_t>(letters);
    for (uint32_t i = 0; i < count; ++i) {
      const int32_t left = static_cast<int32_t>(random() % static_cast<uint32_t>(next));
      const int32_t right = static_cast<int32_t>(random() % static_cast<uint32_t>(next));
      if (merges.find(left, right).rank != Merges::kNone) continue;
      // Ranks in random order. Some pairs share a rank, as with equal scores.
      merges.add(left, right, {static_cast<uint32_t>(random() % 30), next++});
    }
    Merger merger(merges);
    for (const size_t size : {0, 1, 2, 20, 48, 49, 200}) {
      Ids ids(size);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % letters);
      Ids found = ids;
      merger.merge(found);
      CAPTURE(round, size);
      CHECK(found == merged_slowly(merges, ids));
    }
  }
}

TEST_CASE("a pair that is added twice has the last rank") {
  Merges merges;
  merges.add(1, 2, {5, 3});
  merges.add(1, 2, {4, 7});
  CHECK(merges.find(1, 2).id == 7);
  CHECK(merges.find(2, 1).rank == Merges::kNone);
  for (int32_t i = 0; i < 1000; ++i) merges.add(i, i + 1000, {static_cast<uint32_t>(i), i});
  for (int32_t i = 0; i < 1000; ++i) CHECK(merges.find(i, i + 1000).id == i);
}

TEST_CASE("millions of equal tokens are merged in linear time") {
  Merges merges;
  for (int32_t level = 0; level < 6; ++level) merges.add(level, level, {9u - level, level + 1});
  Merger merger(merges);
  Ids ids(3'000'000, 0);
  merger.merge(ids);
  CHECK(ids == Ids(3'000'000 / 64, 6));
}

}  // namespace
}  // namespace skald::test
