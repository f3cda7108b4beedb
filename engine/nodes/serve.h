// What a process does that serves a rank: it answers the messages of RemoteRank.
#pragma once

#include "engine/nodes/exchange.h"
#include "engine/nodes/links.h"
#include "engine/step/rank.h"

namespace skald::nodes {

// Until the first rank says that the group ends. Throws an Error if it ends with one, or is lost.
void serve(Links& links, NodeExchange& exchange, RankExecutor& executor);

// Tells the first rank that this one failed with `error`. Never throws.
void say_failed(Links& links, const Error& error) noexcept;

}  // namespace skald::nodes
