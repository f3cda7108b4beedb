#include "app/model/plan_report.h"

#include <algorithm>
#include <cstdio>

#include "app/files/json.h"
#include "app/model/cache_types.h"
#include "app/terminal/table.h"
#include "engine/base/error.h"

namespace skald {
namespace {

constexpr const char* kWeightsNote =
    "the weights do not fit in the free memory: every step reads parts of them from their file";

// --vram does not count here: the system drops a file's pages only when its memory is full.
bool weights_stay(const MemoryPlan& plan) { return plan.needed() <= plan.device.free; }

std::string context_text(const MemoryPlan& plan) {
  switch (plan.context_by) {
    case MemoryPlan::ContextBy::Asked:
      return concat(plan.context, " tokens, set by -c");
    case MemoryPlan::ContextBy::Model:
      return concat(plan.context, " tokens, the model's own");
    case MemoryPlan::ContextBy::Memory:
      if (plan.most_context == 0) return concat("not even ", plan.context, " tokens fit");
      return concat(plan.context, " of the model's ", plan.model_context,
                    " tokens, which is what fits in memory");
    case MemoryPlan::ContextBy::Short:
      return concat(plan.context, " of the model's ", plan.model_context,
                    " tokens, because a larger context changes the rope of all positions");
    case MemoryPlan::ContextBy::Weights:
      return concat(plan.context, " of the model's ", plan.model_context,
                    " tokens, which leaves memory for weights");
  }
  return "";
}

const char* context_by_name(MemoryPlan::ContextBy by) {
  switch (by) {
    case MemoryPlan::ContextBy::Asked:
      return "asked";
    case MemoryPlan::ContextBy::Model:
      return "model";
    case MemoryPlan::ContextBy::Memory:
      return "memory";
    case MemoryPlan::ContextBy::Short:
      return "short";
    case MemoryPlan::ContextBy::Weights:
      return "weights";
  }
  return "";
}

std::string fits_text(const MemoryPlan& plan) {
  if (plan.most_context == 0) return "no, with any context";
  if (!plan.fits_host()) return "no, the host's memory does not hold its part of the weights";
  const bool host = plan.fits() && plan.host() > 0;
  return concat(plan.fits() ? "yes" : "no", host ? ", with weights on the host" : "",
                host ? ";\n           " : "; ", "the largest context that fits is ",
                plan.most_context);
}

std::string speed_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.3g" : "%.0f", value);
  return text;
}

const char* steps_verb(const MemoryPlan& plan) {
  return plan.host_memory == HostMemoryKind::Mapped ? "reads" : "copies";
}

// Returns ": at most 16.5 tokens/s"; empty if the number is not known.
std::string most_text(double most) {
  return most > 0 ? concat(": at most ", speed_text(most), " tokens/s") : "";
}

// Returns "a token reads 7.9 GiB of them: at most 16.5 tokens/s".
std::string decode_text(const MemoryPlan& plan) {
  return concat("a token reads ", size_text(plan.row_copied), " of them",
                most_text(plan.most_tokens()));
}

// "; a prompt's step copies 9.2 GiB: at most 24000 tokens/s; 8 texts together: at most 64 tokens/s"
std::string steps_text(const MemoryPlan& plan) {
  std::string text;
  const double prompt = plan.most_tokens(plan.rows), together = plan.most_tokens(plan.sequences);
  if (plan.rows > 1 && prompt > 0) {
    text += concat("; a prompt's step ", steps_verb(plan), " ", size_text(plan.copied),
                   most_text(prompt));
  }
  if (plan.sequences > 1 && together > 0) {
    text += concat("; ", plan.sequences, " texts together", most_text(together));
  }
  return text;
}

// Returns "by the link (43.1 GB/s) and the CPU (88 GB/s)"; empty if the speeds are not known.
std::string link_text(const MemoryPlan& plan) {
  std::string text;
  const auto add = [&](const char* what, double speed) {
    if (speed <= 0) return;
    text += concat(text.empty() ? "by " : " and ", what, " (", speed_text(speed / 1e9), " GB/s)");
  };
  add("the link", plan.link);
  add("the CPU", plan.cpu);
  return text;
}

// What lies in the host's memory, and what that costs.
std::string host_notes(const MemoryPlan& plan) {
  if (plan.host() == 0) return "";
  const int64_t placed = plan.host() - plan.host_by_rule - plan.cached;
  std::string notes;
  if (placed > 0) {
    notes += concat("skald: the GPU has no room for ", size_text(placed),
                    " of the weights, which lie in the host's memory (--vram and "
                    "--gpu-layers change that)\n");
  }
  if (plan.cached > 0) {
    notes += concat("skald: of the experts there, the GPU keeps ", size_text(plan.cached),
                    " that were used last\n");
  }
  if (plan.host_by_rule > 0) {
    notes += concat("skald: ", size_text(plan.host_by_rule), placed > 0 ? " more" : "",
                    " of the weights lie in the host's memory, as --override-tensor or --cpu-moe "
                    "ask\n");
  }
  if (plan.copied > 0) {
    const std::string link = link_text(plan);
    notes +=
        concat("skald: ", decode_text(plan), link.empty() ? "" : " ", link, steps_text(plan), "\n");
  }
  const bool pageable = plan.host_memory == HostMemoryKind::Pageable;
  if (pageable || plan.unlocked > 0) {
    notes += concat(
        "skald: ",
        pageable ? "they lie in ordinary memory, as --host-memory pageable asks"
                 : concat("the machine did not page-lock ", size_text(plan.unlocked), " of them"),
        ", so each step copies them more slowly\n");
  }
  return notes;
}

std::string host_text(const PlanReport& report) {
  const MemoryPlan& plan = report.memory;
  const double prompt = plan.most_tokens(plan.rows);
  std::string text =
      concat("host       a prompt's step ", steps_verb(plan), " ", size_text(plan.copied),
             " of weights", most_text(prompt), ",\n", "           ", decode_text(plan), "\n");
  const std::string link = link_text(plan);
  if (link.empty()) return text;
  const bool more = report.cpu_helps && plan.cpu == 0;
  return text + concat("           ", link, more ? "; the CPU's help comes on top" : "", "\n");
}

std::string types_text(const PlanReport& report) {
  if (report.types.empty())
    return report.memory.fits() ? "" : "           with no other type either\n";
  const bool host = report.types.front().host > 0;
  Table table{{"type that fits", "weights", "total", "largest context"}, {}};
  if (host) table.header.emplace_back("on the host");
  for (const FittingType& one : report.types) {
    table.rows.push_back(
        {one.type, size_text(one.weights), size_text(one.needed), concat(one.most_context)});
    if (host) table.rows.back().push_back(size_text(one.host));
  }
  return "\n" + to_text(table);
}

std::string sequences_text(const PlanReport& report) {
  const std::vector<BySequences>& all = report.by_sequences;
  const bool speeds = std::any_of(all.begin(), all.end(),
                                  [](const BySequences& one) { return one.most_tokens > 0; });
  Table table{{"sequences", "largest context per sequence"}, {}};
  if (speeds) table.header.emplace_back("tokens/s of all, at most");
  for (const BySequences& one : all) {
    std::vector<std::string> row = {concat(one.sequences), concat(one.context)};
    if (speeds) row.push_back(one.most_tokens > 0 ? speed_text(one.most_tokens) : "-");
    table.rows.push_back(std::move(row));
  }
  return to_text(table);
}

// For each op: a line with its matrix, then a line per kernel with the row counts that use it.
std::string kernels_text(const PlanReport& report) {
  std::string out = "kernels by number of rows in a step\n";
  for (const cuda::KernelUse& use : report.kernels) {
    out += concat("\n", use.times, " x ", use.ops, "; ", use.weights,
                  use.weights.empty() ? "" : " ", use.shape, "\n");
    for (size_t i = 0, end; i < use.kernels.size(); i = end) {
      std::string rows = concat(report.kernel_rows[i]);
      for (end = i + 1; end < use.kernels.size() && use.kernels[end] == use.kernels[i]; ++end) {
        rows += concat(", ", report.kernel_rows[end]);
      }
      const size_t width = 22;
      out += concat("    ", rows, std::string(width - std::min(width - 1, rows.size()), ' '),
                    use.kernels[i], "\n");
    }
  }
  return out;
}

// A table of how often a decode step has each edge, by rows.
std::string edges_text(const PlanReport& report) {
  Table table{{"what a launch leaves for a later one", "from", "to"}, {}};
  for (int rows : report.kernel_rows) table.header.push_back(concat(rows, " rows"));
  for (const cuda::EdgeUse& use : report.edges) {
    std::vector<std::string> row = {use.what, use.from, use.to};
    for (int times : use.times) row.push_back(times > 0 ? concat(times) : "-");
    table.rows.push_back(std::move(row));
  }
  return "edges of a decode step\n\n" + to_text(table);
}

}  // namespace

std::string to_text(const PlanReport& report) {
  const MemoryPlan& plan = report.memory;
  std::string out =
      concat("model      ", report.model, ", ", count_text(report.parameters), " parameters\n",
             "device     ", report.device, "\n",  //
             "memory     ", size_text(plan.device.total), ", ", size_text(plan.device.free),
             " free, ", size_text(plan.available), " usable\n",  //
             "context    ", context_text(plan), "\n",            //
             report.shows_cache ? concat("KV cache   ", to_text(plan.cache_types), "\n") : "",
             "sequences  ", plan.sequences, "\n",  //
             "rows       ", report.rows, " in a step\n\n");
  Table parts{{"part", "size"}, {}};
  for (const MemoryPart& part : plan.parts) {
    parts.rows.push_back({concat(part.name, part.mapped ? " (from the file)" : ""),
                          concat(size_text(part.bytes), part.host ? " (of the machine)" : "")});
  }
  parts.rows.push_back({"total", size_text(plan.needed())});
  out += to_text(parts);
  out += concat("\nfits       ", fits_text(plan), "\n");
  if (plan.fits() && !weights_stay(plan)) {
    out +=
        "           but the weights do not fit in the free memory: every step reads\n"
        "           parts of them from their file\n";
  }
  if (plan.copied > 0) out += host_text(report);
  if (report.fitting_ranks > 0) {
    out += concat("           ", report.fitting_ranks, " such GPUs hold it: --tp ",
                  report.fitting_ranks, "\n");
  }
  out += types_text(report);
  out += "\n" + sequences_text(report);
  if (!report.kernels.empty()) out += "\n" + kernels_text(report);
  if (!report.edges.empty()) out += "\n" + edges_text(report);
  return out;
}

bool fits_in_memory(const MemoryPlan& plan) {
  return plan.fits() && weights_stay(plan) && plan.host() == plan.host_by_rule;
}

Json to_json(const PlanReport& report) {
  const MemoryPlan& plan = report.memory;
  Json json = {{"model", report.model},
               {"parameters", report.parameters},
               {"device", report.device},
               {"total_bytes", plan.device.total},
               {"free_bytes", plan.device.free},
               {"available_bytes", plan.available},
               {"context", plan.context},
               {"context_by", context_by_name(plan.context_by)},
               {"model_context", plan.model_context},
               {"sequences", plan.sequences},
               {"rows", report.rows},
               {"parts", Json::array()},
               {"needed_bytes", plan.needed()},
               {"mapped_bytes", plan.mapped()},
               {"host_bytes", plan.host()},
               {"host_bytes_of_a_prompt_step", plan.copied},
               {"host_bytes_of_a_token", plan.row_copied},
               {"fits", plan.fits()},
               {"weights_stay_in_memory", weights_stay(plan)},
               {"largest_context", plan.most_context},
               {"largest_context_by_sequences", Json::array()}};
  add_cache_types(plan.cache_types, json);
  for (const MemoryPart& part : plan.parts) {
    json["parts"].push_back(
        {{"name", part.name}, {"bytes", part.bytes}, {"mapped", part.mapped}, {"host", part.host}});
  }
  for (const BySequences& one : report.by_sequences) {
    Json row = {{"sequences", one.sequences}, {"largest_context", one.context}};
    if (one.most_tokens > 0) row["most_tokens_per_second"] = one.most_tokens;
    json["largest_context_by_sequences"].push_back(std::move(row));
  }
  if (plan.most_tokens() > 0) {
    json["most_tokens_per_second"] = plan.most_tokens();
    json["most_prompt_tokens_per_second"] = plan.most_tokens(plan.rows);
  }
  if (report.fitting_ranks > 0) json["ranks_that_fit"] = report.fitting_ranks;
  for (const FittingType& one : report.types) {
    json["types_that_fit"].push_back({{"type", one.type},
                                      {"weights_bytes", one.weights},
                                      {"needed_bytes", one.needed},
                                      {"largest_context", one.most_context},
                                      {"host_bytes", one.host}});
  }
  if (!report.kernels.empty()) json["kernels"] = Json::array();
  for (const cuda::KernelUse& use : report.kernels) {
    Json kernels = Json::array();
    for (size_t i = 0; i < use.kernels.size(); ++i) {
      kernels.push_back({{"rows", report.kernel_rows[i]}, {"kernels", use.kernels[i]}});
    }
    json["kernels"].push_back({{"ops", use.ops},
                               {"weights", use.weights},
                               {"shape", use.shape},
                               {"times", use.times},
                               {"by_rows", kernels}});
  }
  if (!report.edges.empty()) json["edges"] = Json::array();
  for (const cuda::EdgeUse& use : report.edges) {
    Json times = Json::array();
    for (size_t i = 0; i < use.times.size(); ++i) {
      times.push_back({{"rows", report.kernel_rows[i]}, {"times", use.times[i]}});
    }
    json["edges"].push_back(
        {{"what", use.what}, {"from", use.from}, {"to", use.to}, {"by_rows", times}});
  }
  return json;
}

std::string context_note(const MemoryPlan& plan) {
  using By = MemoryPlan::ContextBy;
  const bool smaller = plan.context_by == By::Memory || plan.context_by == By::Short ||
                       plan.context_by == By::Weights;
  return smaller ? concat("skald: the context is ", context_text(plan), "; -c sets another\n") : "";
}

std::string plan_notes(const MemoryPlan& plan) {
  return concat(context_note(plan), weights_stay(plan) ? "" : concat("skald: ", kWeightsNote, "\n"),
                host_notes(plan),
                plan.exchange_on_host
                    ? "skald: the GPUs do not reach each other's memory; they exchange numbers "
                      "through the host's, which is slower\n"
                    : "");
}

}  // namespace skald
