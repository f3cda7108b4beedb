// Draws a perplexity run as SVG: a dot per chunk, and a line for the perplexity of all chunks so
// far.
#pragma once

#include <string>

#include "app/perplexity/total.h"

namespace skald {

std::string plot_svg(const PplTotal& total);

}  // namespace skald
