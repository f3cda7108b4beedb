// Measures every golden (golden.h) on a device, as its folder and as a GGUF that is made of it: the
// largest difference of a logit from transformers' in float32. scripts/golden_table makes a table
// of the printed lines.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "engine/step/backend.h"
#include "models/open.h"
#include "tests/exported_gguf.h"
#include "tests/golden_check.h"
#include "tests/temp_folder.h"

namespace skald::test {

// The whole text is one step, then steps of 7 tokens, then, if it is short, of one.
inline double golden_error(Executor& executor, const std::filesystem::path& folder) {
  const nlohmann::json golden = read_json(folder / "golden.json");
  const Matrix expected = read_npy(folder / "logits.npy");
  const auto ids = golden["input_ids"].get<std::vector<int32_t>>();
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < expected.rows; ++i) rows.push_back(i);
  if (golden.contains("logit_rows")) rows = golden["logit_rows"].get<std::vector<int64_t>>();
  double largest = 0;
  for (size_t chunk : {static_cast<size_t>(executor.max_rows()), size_t{7}, size_t{1}}) {
    if (chunk < 8 && ids.size() > 500) continue;
    Sequence sequence = executor.new_sequence();
    for (size_t at = 0; at < ids.size(); at += chunk) {
      const auto part = std::span(ids).subspan(at, std::min(chunk, ids.size() - at));
      const SeqRows step{&sequence, part, Want::EveryRow};
      const int64_t wanted = executor.run({&step, 1});
      for (int64_t row = 0; row < wanted; ++row) {
        const auto place = std::find(rows.begin(), rows.end(), static_cast<int64_t>(at) + row);
        if (place == rows.end()) continue;
        const double here =
            largest_difference(executor.logits(row), expected.row(place - rows.begin()));
        if (!(here <= largest)) largest = here;  // keeps NaN
      }
    }
  }
  return largest;
}

inline std::set<std::string> golden_names() {
  std::set<std::string> names;
  for (const std::filesystem::path& folder : {data_dir() / "goldens", shared_dir() / "goldens"}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::filesystem::path& path = entry.path();
      if (std::filesystem::exists(path / "logits.npy")) names.insert(path.filename().string());
    }
  }
  return names;
}

// Prints a line of five fields with tabs between: golden, family, device, kind of file, and the
// error or why there is none.
inline void print_golden_errors(
    const std::string& device,
    const std::function<std::unique_ptr<Executor>(const Model&)>& make_executor) {
  for (const std::string& name : golden_names()) {
    const std::filesystem::path folder = find_golden(name);
    std::string family;
    const auto line = [&](const char* kind, const std::function<Model()>& model) {
      std::string result;
      try {
        const Model opened = model();
        char text[32];
        std::snprintf(text, sizeof text, "%.1e", golden_error(*make_executor(opened), folder));
        result = text;
      } catch (const Error& error) {
        result = error.what();
        std::replace(result.begin(), result.end(), '\n', ' ');
      }
      std::printf("%s\t%s\t%s\t%s\t%s\n", name.c_str(), family.c_str(), device.c_str(), kind,
                  result.c_str());
      std::fflush(stdout);
    };
    line("folder", [&] {
      const OpenedModel opened = open_model(folder);
      family = opened.family;
      return opened.model;
    });
    TempFolder temp;
    line("GGUF", [&] {
      const std::string bytes = gguf_bytes(open_model(folder), DType::F32, 4096);
      return open_model(temp.write("m.gguf", bytes)).model;
    });
  }
}

}  // namespace skald::test
