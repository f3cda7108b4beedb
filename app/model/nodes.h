// The ranks of one model in several processes (engine/nodes): --rank, the variables of the programs
// that start such processes, and what each of them does. The first rank runs the command; the
// others serve it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/doctor/facts.h"
#include "engine/nodes/links.h"
#include "engine/program/model.h"
#include "engine/step/backend.h"

namespace skald {

struct DeviceFlags;
struct ModelFlags;

// Where this process stands among the ranks.
struct RankPlace {
  int rank = 0, of = 1;
  nodes::Address address;  // of the first rank
  std::string secret;      // that all of the group know, and nobody else
  double timeout = 20;     // seconds of silence after which a rank is lost
};

// `text` is the value of --rank:
//   I/N@HOST:PORT    rank I of N; the first rank listens at HOST:PORT
//   auto             what srun, mpirun or torchrun say in the environment
//   auto@HOST:PORT   the same, with another address
// Nothing if there is one rank alone, or if the text is empty. SKALD_SECRET and SKALD_RANK_TIMEOUT
// of the environment come before the job's id and 20 s. Throws Error(Exit::Usage).
std::optional<RankPlace> find_rank(const std::string& text, const Environment& environment);

// The executor of all ranks, in the first rank's process. Waits for the others.
std::unique_ptr<Executor> lead_ranks(const Model& model, const RunOptions& options,
                                     const RankPlace& place);

// For another rank than the first: serves until the first one ends, and returns the exit code.
// Nothing for the first rank, and without --rank. A command calls it once it knows the model's
// name, before it reads or writes anything.
std::optional<int> serve_other_rank(const ModelFlags& flags);
// In two parts, for a model that no file has.
bool is_other_rank(const DeviceFlags& flags);
int serve_rank(const ModelFlags& flags, const Model& model);

}  // namespace skald
