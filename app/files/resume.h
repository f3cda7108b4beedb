// Continues a file of lines that a stopped run wrote: the results of `batch`, `embed` and `score`,
// the checkpoints of `perplexity`. A kill or a full disk can leave the last line without its
// newline; such a line is torn, and does not count even if it looks whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/files/jsonl_reader.h"
#include "app/files/output_file.h"

namespace skald {

// Calls `take` for each line that ends with a newline. Returns the number of the torn line behind
// them, or 0. Throws if the program is interrupted, and whatever `take` throws.
int64_t read_whole_lines(const std::string& path,
                         const std::function<void(const JsonlLine&)>& take);

// The same for an output that was opened with Existing::Continue. Then cuts the torn line, so that
// new lines can follow. If the torn line is not the beginning of a JSON object, calls `refuse` with
// the number of the line; `refuse` throws, and the file stays as it is.
void continue_lines(OutputFile& output, const std::function<void(const JsonlLine&)>& take,
                    const std::function<void(int64_t number)>& refuse);

}  // namespace skald
