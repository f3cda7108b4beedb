// Collects importances while a model computes a text, and writes them as llama.cpp's GGUF of
// importance matrices (importance.h): for each matrix, and each of its experts, the sums of the
// squares of the columns of its inputs, and how many rows these are. Names and columns are those of
// the model's GGUF, also where the model is a Hugging Face folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/cpu/product_observer.h"
#include "models/open.h"

namespace skald {

struct ImportanceText {
  std::string name;  // of the text
  int64_t chunk = 0, chunks = 0;
};

class ImportanceSums final : public cpu::ProductObserver {
 public:
  // Throws Error(Exit::Model) for a folder that skald cannot write as a GGUF.
  explicit ImportanceSums(const OpenedModel& opened);
  ImportanceSums(const ImportanceSums&) = delete;
  ImportanceSums& operator=(const ImportanceSums&) = delete;

  void see(const Weight& weight, const float* in, int64_t rows) override;

  int64_t matrices() const { return std::ssize(sums_); }
  int64_t unseen_experts() const;  // of matrices that were seen: experts that no row chose
  std::string file(const ImportanceText& text) const;  // the whole GGUF

 private:
  // A GGUF tensor that is made of a tensor of the model.
  struct Place {
    std::string name;
    int64_t experts = 1;
    int64_t first = 0;                    // expert that the model's tensor begins with
    int64_t rows = 0;                     // of an expert in the model's tensor
    std::vector<int32_t> col_order = {};  // MadeTensor's
  };
  struct Sums {
    int64_t cols = 0;
    std::vector<double> squares;  // [experts, cols]
    std::vector<int64_t> counts;  // [experts]
    const Place* place = nullptr;
  };

  std::unordered_map<std::string, std::vector<Place>> places_;  // by the model's tensor
  std::map<std::string, Sums> sums_;                            // by the GGUF's tensor
};

}  // namespace skald
