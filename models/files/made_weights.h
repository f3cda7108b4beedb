// A weight file some of whose tensors are not in memory as they are described: they have a source
// in another format, or a reader. A GPU makes them while it uploads them; made() makes them on the
// host, as the CPU needs them.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "engine/program/weights.h"

namespace skald {

class DescribedWeights : public WeightFile {
 public:
  // The tensors that are made take memory.
  bool mapped() const override { return false; }
  void check_whole() const override { source_->check_whole(); }
  // Throws Error(Exit::Memory) if the weights do not fit in memory, Error(Exit::Model) if a format
  // cannot hold a weight.
  std::shared_ptr<const WeightFile> made(const MakeOptions& options) const override;

 protected:
  // The views of `source` may be used by the tensors that are described.
  DescribedWeights(std::string path, std::shared_ptr<const WeightFile> source);
  const WeightFile& source() const { return *source_; }

 private:
  std::shared_ptr<const WeightFile> source_;
  mutable std::mutex making_;
  mutable std::shared_ptr<const WeightFile> made_;
};

}  // namespace skald
