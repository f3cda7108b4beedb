// A drawing of a perplexity run: a dot for each chunk, a line for the value over all up to it.
#pragma once

#include <string>

#include "app/perplexity/total.h"

namespace skald {

std::string plot_svg(const PplTotal& total);

}  // namespace skald
