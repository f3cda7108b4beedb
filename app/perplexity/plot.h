// Draws a perplexity run as SVG: a dot per chunk, and a line for the perplexity of all chunks so
// far. Colours follow the reader's light or dark theme. A few very high values would flatten the
// rest: they are drawn as triangles at the upper edge, and the legend says how many and how high.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/perplexity/total.h"

namespace skald {

struct PlotData {
  std::string title, subtitle;
  int64_t first = 0;  // number of the first chunk
  std::vector<PplTotal::Point> points;
};

std::string plot_svg(const PlotData& data);
std::string plot_svg(const PplTotal& total);

}  // namespace skald
