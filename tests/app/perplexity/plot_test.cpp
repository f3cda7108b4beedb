// The SVG of skald perplexity --plot.
#include "app/perplexity/plot.h"

#include <cmath>
#include <regex>

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

std::vector<double> numbers(const std::string& svg, const std::string& pattern) {
  std::vector<double> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(svg.begin(), svg.end(), regex), end; at != end; ++at) {
    found.push_back(std::stod((*at)[1].str()));
  }
  return found;
}

// Leaves out the legend's own marks, which stand above the axes.
std::string drawing(const std::string& svg) { return svg.substr(svg.find("class=\"axis\"")); }
std::vector<double> dots(const std::string& svg) {
  return numbers(drawing(svg), "<circle class=\"chunk\" cx=\"[^\"]*\" cy=\"([^\"]*)\"");
}
size_t triangles(const std::string& svg) {
  return numbers(drawing(svg), "<path class=\"high\" d=\"M([0-9.]+)").size();
}

PlotData plot_of(const std::vector<double>& chunks) {
  PlotData data{"a <title>", "model & text", 10, {}};
  double sum = 0, count = 0;
  for (const double chunk : chunks) {
    if (std::isfinite(chunk)) sum += chunk, ++count;
    data.points.push_back({chunk, sum / count});
  }
  return data;
}

TEST_CASE("the plot of a few chunks shows every value inside its axes") {
  const std::string svg = plot_svg(plot_of({20, 900, 30}));
  const std::vector<double> y = dots(svg);
  REQUIRE(y.size() == 3);
  CHECK(y[0] > y[2]);  // a higher value stands higher
  const auto edges = numbers(svg, "<line class=\"axis\" x1=\"([^\"]*)\"");
  const auto right = numbers(svg, "<line class=\"axis\"[^>]*x2=\"([^\"]*)\"");
  for (const double x : numbers(drawing(svg), "<circle class=\"chunk\" cx=\"([^\"]*)\"")) {
    CHECK(x > edges.at(0) + 10);  // no mark lies on the frame
    CHECK(x < right.at(1) - 10);
  }
  CHECK(y[2] > y[1]);
  for (const double one : y) CHECK((one > 80.5 && one < 409.5));
  CHECK(triangles(svg) == 0);
  CHECK(!has(svg, "above the plot"));
}

TEST_CASE("values that the plot has no room for are marked, and the legend counts them") {
  std::vector<double> chunks(300);
  for (int i = 0; i < 300; ++i) chunks[i] = 20 + i % 7;
  chunks[100] = 5000;
  chunks[200] = INFINITY;
  const std::string svg = plot_svg(plot_of(chunks));
  CHECK(dots(svg).size() == 298);
  CHECK(triangles(svg) >= 2);  // the running line may be above as well
  CHECK(has(svg, "above the plot: 2 chunks, up to inf"));
  chunks[200] = 27;  // hardly above the others: no reason to leave it out
  chunks[100] = 28;
  const std::string calm = plot_svg(plot_of(chunks));
  CHECK(dots(calm).size() == 300);
  CHECK(triangles(calm) == 0);
}

TEST_CASE("of many chunks, a bar stands for several, from the lowest value to the highest") {
  std::vector<double> chunks(5000);
  for (int i = 0; i < 5000; ++i) chunks[i] = i % 3 == 0 ? 40 : 20;
  const std::string svg = plot_svg(plot_of(chunks));
  const auto tops = numbers(drawing(svg), "<line class=\"chunk\"[^>]*y2=\"([^\"]*)\"");
  const auto bottoms = numbers(drawing(svg), "<line class=\"chunk\"[^>]*y1=\"([^\"]*)\"");
  REQUIRE(tops.size() == 1667);  // the last of them has two chunks
  CHECK(bottoms[0] > tops[0] + 250);
  CHECK(has(svg, "3 chunks, lowest to highest"));
}

TEST_CASE("the plot has labelled axes, a legend and colours for both themes") {
  const std::string svg = plot_svg(plot_of({20, 30, 25}));
  for (const char* text :
       {">perplexity</text>", ">chunk</text>", ">one chunk</text>", ">all chunks so far</text>",
        ">10</text>", ">12</text>", "a &lt;title&gt;", "model &amp; text",
        "@media(prefers-color-scheme:dark)", "viewBox"}) {
    CAPTURE(text);
    CHECK(has(svg, text));
  }
  // Every colour belongs to a class that both themes set.
  CHECK(svg.find("#", svg.find("</style>")) == std::string::npos);
}

TEST_CASE("a plot of one chunk, or of none that is a number, is whole") {
  CHECK(dots(plot_svg(plot_of({20}))).size() == 1);
  const std::string nothing = plot_svg(plot_of({NAN}));
  CHECK(dots(nothing).empty());
  CHECK(!has(drawing(nothing), "nan"));
}

}  // namespace
}  // namespace skald::test
