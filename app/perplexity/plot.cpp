#include "app/perplexity/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr double kWidth = 900, kHeight = 420, kLeft = 70, kRight = 20, kTop = 50, kBottom = 45;
constexpr size_t kMostPoints = 2000;  // if there are more, only every n-th is drawn

std::string number(double value, const char* format = "%.1f") {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

// The smallest of 1, 2 and 5 times a power of ten that gives at most six ticks.
double tick_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(std::max(range, 1e-9) / 6)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return concat("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">",
                escaped(text), "</text>\n");
}

class Axes {
 public:
  Axes(double first, double last, double low, double high)
      : first_(first), last_(std::max(last, first + 1)), low_(low), high_(high) {}

  double x(double value) const {
    return kLeft + (value - first_) / (last_ - first_) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - low_) / (high_ - low_) * (kHeight - kTop - kBottom);
  }

  std::string svg() const {
    std::string out = "<g stroke=\"#ccc\">\n", labels;
    const double y_step = tick_step(high_ - low_);
    for (double value = std::ceil(low_ / y_step) * y_step; value <= high_; value += y_step) {
      out += line(kLeft, y(value), kWidth - kRight, y(value));
      labels += text_at(kLeft - 8, y(value) + 4, "end", number(value, "%.6g"));
    }
    const double x_step = std::max(tick_step(last_ - first_), 1.0);
    for (double value = std::ceil(first_ / x_step) * x_step; value <= last_; value += x_step) {
      out += line(x(value), kTop, x(value), kHeight - kBottom);
      labels += text_at(x(value), kHeight - kBottom + 18, "middle", number(value, "%.6g"));
    }
    return out + "</g>\n" + labels;
  }

 private:
  static std::string line(double x1, double y1, double x2, double y2) {
    return concat("<line x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"", number(x2),
                  "\" y2=\"", number(y2), "\"/>\n");
  }

  double first_, last_, low_, high_;
};

}  // namespace

std::string plot_svg(const PplTotal& total) {
  const auto& points = total.points();
  std::vector<double> values;
  for (const PplTotal::Point& point : points) {
    if (std::isfinite(point.chunk)) values.push_back(point.chunk);
    if (std::isfinite(point.running)) values.push_back(point.running);
  }
  if (values.empty()) values = {0, 1};
  std::sort(values.begin(), values.end());
  // The top 1 % is cut off: a few very high chunks would flatten the rest.
  double low = values.front(), high = values[(values.size() - 1) * 99 / 100];
  const double margin = std::max((high - low) * 0.05, high * 1e-3 + 1e-9);
  low = std::max(low - margin, 0.0);
  high += margin;
  const Axes axes(static_cast<double>(total.first()),
                  static_cast<double>(total.first() + total.chunks() - 1), low, high);
  const size_t step = points.size() / kMostPoints + 1;

  std::string dots = "<g fill=\"#7aa6d6\">\n", line =
                                                   "<polyline fill=\"none\" stroke=\"#c0392b\" "
                                                   "stroke-width=\"2\" points=\"";
  for (size_t i = 0; i < points.size(); i += step) {
    const double x = axes.x(static_cast<double>(total.first()) + static_cast<double>(i));
    const double chunk = std::clamp(points[i].chunk, low, high);
    if (std::isfinite(points[i].chunk)) {
      dots +=
          concat("<circle cx=\"", number(x), "\" cy=\"", number(axes.y(chunk)), "\" r=\"2\"/>\n");
    }
    line += concat(number(x), ",", number(axes.y(std::clamp(points[i].running, low, high))), " ");
  }
  const Estimate result = total.sums().perplexity();
  const PplHeading& heading = total.heading();
  return concat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"", kHeight,
      "\" font-family=\"sans-serif\" font-size=\"12\">\n",
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      text_at(
          kLeft, 20, "start",
          concat("perplexity ", number(result.value, "%.4f"), " ± ", number(result.error, "%.4f"),
                 ", ", heading.settings.name(), ", ", total.sums().tokens, " tokens")),
      text_at(kLeft, 38, "start",
              concat(printable(heading.model.path, 60), " on ", printable(heading.text, 50))),
      axes.svg(), dots, "</g>\n", line, "\"/>\n",
      text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle",
              "chunk (dots: each chunk; line: all chunks so far)"),
      "</svg>\n");
}

}  // namespace skald
