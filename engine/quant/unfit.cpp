#include "engine/quant/unfit.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/quant/encode.h"

namespace skald {

float largest_weight(DType type) {
  return type == DType::F32 || type == DType::BF16 ? FLT_MAX : kLargestWeight;
}

int64_t first_unfit(const float* weights, int64_t count, DType type) {
  const float largest = largest_weight(type);
  const float* end = weights + count;
  const float* at = std::find_if(weights, end, [&](float w) {
    return !(std::fabs(w) <= largest);  // the negation is also true for NaN
  });
  return at == end ? -1 : at - weights;
}

void fail_unfit(const std::string& file, const std::string& tensor, int64_t row, float weight,
                DType type) {
  fail(Exit::Model, file, ": tensor '", printable(tensor), "' holds ", weight, " in row ", row,
       ", which ", name(type), " cannot hold (at most ", largest_weight(type),
       " in magnitude); the file is damaged, or convert it to a wider format");
}

}  // namespace skald
