#include "app/measure/bench_report.h"

#include <cmath>
#include <cstdio>
#include <numeric>

#include "app/files/json.h"
#include "app/model/cache_types.h"
#include "app/model/expert_use.h"
#include "engine/base/error.h"
#include "engine/base/number_text.h"

namespace skald {
namespace {

const char* kind(const BenchResult& result) {
  return result.test.scored ? "score" : result.test.prompt ? "prefill" : "decode";
}
double per_second(double amount, const BenchResult& r) { return amount / r.mean_seconds(); }

}  // namespace

std::string BenchCase::name() const {
  return concat(scored   ? "sc"
                : prompt ? "pp"
                         : "tg",
                tokens, sequences > 1 && !scored ? concat(" b", sequences) : "",
                guesses() ? number_text(accepted, " a%.4g") : "",
                depth ? concat(" @ d", depth) : "");
}

double BenchResult::mean_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

double BenchResult::mean_rate() const {
  double sum = 0;
  for (double s : seconds) sum += test.all_tokens() / s;
  return sum / static_cast<double>(seconds.size());
}

double BenchResult::rate_deviation() const {
  if (seconds.size() < 2) return 0;
  const double mean = mean_rate();
  double sum = 0;
  for (double s : seconds) sum += std::pow(test.all_tokens() / s - mean, 2);
  return std::sqrt(sum / static_cast<double>(seconds.size() - 1));
}

Table to_table(const BenchReport& report) {
  Table table{{"model", "size", "params", "backend", "threads", "test", "t/s", "GB/s", "% of read",
               "GFLOP/s"},
              {}};
  if (report.shows_cache) table.header.emplace_back("KV cache");
  for (const BenchResult& r : report.results) {
    const double bytes = per_second(r.bytes, r);
    table.rows.push_back(
        {report.model, size_text(report.bytes), count_text(report.parameters), report.device,
         report.threads > 0 ? concat(report.threads) : "", r.test.name(),
         number_text(r.mean_rate(), "%.2f") + number_text(r.rate_deviation(), " ± %.2f"),
         r.bytes > 0 ? number_text(bytes / 1e9, "%.1f") : "",
         r.bytes > 0 ? number_text(100 * bytes / report.bandwidth, "%.1f") : "",
         r.flops > 0 ? number_text(per_second(r.flops, r) / 1e9, "%.0f") : ""});
    if (report.shows_cache) table.rows.back().push_back(to_text(report.cache_types));
  }
  return table;
}

Table to_csv_table(const BenchReport& report) {
  Table table{{"model", "bytes", "parameters", "backend", "threads", "test", "kind", "tokens",
               "depth", "sequences", "repetitions", "tokens_per_second",
               "tokens_per_second_deviation", "bytes_per_second", "share_of_read_bandwidth",
               "flops_per_second", "accepted", "cache_type_k", "cache_type_v"},
              {}};
  const auto plain = [](double value) { return number_text(value, "%.6g"); };
  for (const BenchResult& r : report.results) {
    const double bytes = per_second(r.bytes, r);
    table.rows.push_back(
        {report.model, concat(report.bytes), concat(report.parameters), report.device,
         concat(report.threads), r.test.name(), kind(r), concat(r.test.tokens),
         concat(r.test.depth), concat(r.test.sequences), concat(r.seconds.size()),
         plain(r.mean_rate()), plain(r.rate_deviation()), r.bytes > 0 ? plain(bytes) : "",
         r.bytes > 0 ? plain(bytes / report.bandwidth) : "",
         r.flops > 0 ? plain(per_second(r.flops, r)) : "",
         r.test.guesses() ? plain(r.test.accepted) : "", flag_word(report.cache_types.keys),
         flag_word(report.cache_types.values)});
  }
  return table;
}

Json to_json(const BenchReport& report) {
  Json json = {{"model", report.model},
               {"bytes", report.bytes},
               {"parameters", report.parameters},
               {"backend", report.device},
               {"threads", report.threads},
               {"read_bytes_per_second", report.bandwidth},
               {"load_seconds", report.load_seconds},
               {"results", Json::array()}};
  add_cache_types(report.cache_types, json);
  for (const BenchResult& r : report.results) {
    Json row = {{"test", r.test.name()},
                {"kind", kind(r)},
                {"tokens", r.test.tokens},
                {"depth", r.test.depth},
                {"sequences", r.test.sequences},
                {"accepted", r.test.guesses() ? Json(r.test.accepted) : Json()},
                {"seconds", r.seconds},
                {"tokens_per_second", r.mean_rate()},
                {"tokens_per_second_deviation", r.rate_deviation()}};
    if (r.bytes > 0) {
      row["bytes_per_second"] = per_second(r.bytes, r);
      row["share_of_read_bandwidth"] = per_second(r.bytes, r) / report.bandwidth;
    }
    if (r.flops > 0) row["flops_per_second"] = per_second(r.flops, r);
    json["results"].push_back(row);
  }
  if (report.experts.all() > 0) json["experts"] = expert_use_json(report.experts);
  return json;
}

}  // namespace skald
