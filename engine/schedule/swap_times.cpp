#include "engine/schedule/swap_times.h"

namespace skald {

void SwapTimes::ran(int64_t rows, int64_t of_prompts, double seconds) {
  rows_ += rows;
  of_prompts_ += of_prompts;
  seconds_ += seconds;
}

// A row of a prompt takes as long as any other row of its steps.
void SwapTimes::finished(double seconds) {
  if (of_prompts_ > 0) {
    const double share = static_cast<double>(of_prompts_) / static_cast<double>(rows_);
    prompt_rows_.add(of_prompts_, share * (seconds_ + seconds));
  }
  rows_ = of_prompts_ = 0;
  seconds_ = 0;
}

bool SwapTimes::copy_is_faster(int64_t bytes, int64_t rows) {
  const double back = copies_back_.units > 0 ? copies_back_.of(bytes) : copies_out_.of(bytes);
  const bool known = prompt_rows_.units > 0 && copies_out_.units > 0;
  const bool faster = !known || copies_out_.of(bytes) + back <= prompt_rows_.of(rows);
  refused_ = faster || refused_ == kTryAgain ? 0 : refused_ + 1;
  return faster || refused_ == 0;
}

}  // namespace skald
