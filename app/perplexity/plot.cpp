#include "app/perplexity/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/number_text.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr double kWidth = 900, kHeight = 460, kLeft = 80, kRight = 20, kTop = 80, kBottom = 50;
constexpr size_t kMostMarks = 2000;  // if there are more chunks, each mark stands for several

constexpr std::string_view kStyle =
    "<style>\n"
    ".back{fill:#ffffff}.text{fill:#222222}.grid{stroke:#d8d8d8}.axis{stroke:#222222}\n"
    ".chunk{fill:#2a6fb0;stroke:#2a6fb0}.run{stroke:#c0392b}.high{fill:#c0392b}\n"
    "@media(prefers-color-scheme:dark){\n"
    ".back{fill:#16181c}.text{fill:#e6e6e6}.grid{stroke:#3a3f47}.axis{stroke:#e6e6e6}\n"
    ".chunk{fill:#7ab8f5;stroke:#7ab8f5}.run{stroke:#ff8a75}.high{fill:#ff8a75}}\n"
    "</style>\n";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const std::string& more = "") {
  return concat("<text class=\"text\" x=\"", number_text(x, "%.1f"), "\" y=\"",
                number_text(y, "%.1f"), "\" text-anchor=\"", anchor, "\"", more, ">", escaped(text),
                "</text>\n");
}

std::string line(const char* style, double x1, double y1, double x2, double y2) {
  return concat("<line class=\"", style, "\" x1=\"", number_text(x1, "%.1f"), "\" y1=\"",
                number_text(y1, "%.1f"), "\" x2=\"", number_text(x2, "%.1f"), "\" y2=\"",
                number_text(y2, "%.1f"), "\"/>\n");
}

std::string dot(double x, double y) {
  return concat("<circle class=\"chunk\" cx=\"", number_text(x, "%.1f"), "\" cy=\"",
                number_text(y, "%.1f"), "\" r=\"2\"/>\n");
}

std::string triangle(double x, double y) {
  return concat("<path class=\"high\" d=\"M", number_text(x, "%.1f"), " ", number_text(y, "%.1f"),
                "l-4 7h8z\"/>\n");
}

// The smallest of 1, 2 and 5 times a power of ten that gives at most six ticks.
double tick_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(std::max(range, 1e-9) / 6)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

struct Range {
  double low = 0, high = 1;
};

// All finite values. Of many, the highest 1 % are left out if they are far above the others.
Range range_of(const std::vector<PplTotal::Point>& points) {
  constexpr size_t kMany = 100;
  std::vector<double> values;
  for (const PplTotal::Point& point : points) {
    if (std::isfinite(point.chunk)) values.push_back(point.chunk);
    if (std::isfinite(point.running)) values.push_back(point.running);
  }
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  Range range{values.front(), values.back()};
  const double usual = values[(values.size() - 1) * 99 / 100];
  const bool far = range.high > usual + 0.5 * (usual - range.low);
  if (values.size() >= kMany && far) range.high = usual;
  const double margin = std::max((range.high - range.low) * 0.05, range.high * 1e-3 + 1e-9);
  return {std::max(range.low - margin, 0.0), range.high + margin};
}

class Plot {
 public:
  explicit Plot(const PlotData& data)
      : data_(data),
        range_(range_of(data.points)),
        step_(data.points.size() / kMostMarks + 1),
        last_chunk_(data.first + std::max<int64_t>(std::ssize(data.points) - 1, 1)) {}

  std::string svg() {
    const std::string marks = chunks(), running = run();  // before the legend, which counts
    return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"",
                  kHeight, "\" viewBox=\"0 0 ", kWidth, " ", kHeight,
                  "\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n<title>",
                  escaped(data_.title), "</title>\n", kStyle,
                  "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
                  text_at(kLeft, 20, "start", data_.title),
                  text_at(kLeft, 38, "start", data_.subtitle), legend(), axes(), marks, running,
                  "</svg>\n");
  }

 private:
  double x(double chunk) const {
    // Half a chunk of room at each end, so that no mark lies on the frame.
    const double first = static_cast<double>(data_.first) - 0.5;
    const double chunks = static_cast<double>(last_chunk_) + 0.5 - first;
    return kLeft + (chunk - first) / chunks * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double share = (value - range_.low) / (range_.high - range_.low);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

  // True for a value that the plot has no room for. NaN is none: it has no place at all.
  bool is_high(double value) const { return value > range_.high; }

  void count_high(double value) {
    ++high_count_;
    highest_ = std::max(highest_, value);
  }

  // A mark for each chunk, or for several chunks a bar from their lowest to their highest value.
  std::string chunks() {
    std::string out;
    for (size_t begin = 0; begin < data_.points.size(); begin += step_) {
      const size_t end = std::min(begin + step_, data_.points.size());
      const double at = x(static_cast<double>(data_.first) + static_cast<double>(begin));
      double low = INFINITY, high = -INFINITY;
      bool above = false;
      for (size_t i = begin; i < end; ++i) {
        const double value = data_.points[i].chunk;
        if (is_high(value)) {
          above = true;
          count_high(value);
        } else if (!std::isnan(value)) {
          low = std::min(low, value);
          high = std::max(high, value);
        }
      }
      if (above) out += triangle(at, kTop);
      if (low == high) out += dot(at, y(low));
      if (low < high) out += line("chunk", at, y(low), at, y(high));
    }
    return out;
  }

  // Drawn within the plot alone. Where the line is above it, it runs along the upper edge, dotted
  // with triangles.
  std::string run() const {
    std::string points, marks;
    for (size_t i = 0; i < data_.points.size(); i += step_) {
      const double value = data_.points[i].running;
      if (std::isnan(value)) continue;
      const double at = x(static_cast<double>(data_.first) + static_cast<double>(i));
      if (is_high(value)) marks += triangle(at, kTop);
      points += concat(number_text(at, "%.1f"), ",",
                       number_text(y(std::min(value, range_.high)), "%.1f"), " ");
    }
    return concat("<polyline class=\"run\" fill=\"none\" stroke-width=\"2\" points=\"", points,
                  "\"/>\n", marks);
  }

  std::string legend() const {
    const double top = 58;
    const std::string each =
        step_ == 1 ? "one chunk" : counted(step_, "chunk") + ", lowest to highest";
    std::string out =
        dot(kLeft + 5, top - 4) + text_at(kLeft + 15, top, "start", each) +
        concat("<line class=\"run\" stroke-width=\"2\" x1=\"", kLeft + 230, "\" y1=\"", top - 4,
               "\" x2=\"", kLeft + 250, "\" y2=\"", top - 4, "\"/>\n") +
        text_at(kLeft + 256, top, "start", "all chunks so far");
    if (high_count_ == 0) return out;
    return out + triangle(kLeft + 400, top - 9) +
           text_at(kLeft + 410, top, "start",
                   concat("above the plot: ", counted(high_count_, "chunk"), ", up to ",
                          number_text(highest_, "%.6g")));
  }

  std::string axes() const {
    std::string grid, labels;
    const double bottom = kHeight - kBottom;
    const double y_step = tick_step(range_.high - range_.low);
    for (double value = std::ceil(range_.low / y_step) * y_step; value <= range_.high;
         value += y_step) {
      grid += line("grid", kLeft, y(value), kWidth - kRight, y(value));
      labels += text_at(kLeft - 8, y(value) + 4, "end", number_text(value, "%.6g"));
    }
    const auto first = static_cast<double>(data_.first), last = static_cast<double>(last_chunk_);
    const double x_step = std::max(tick_step(last - first), 1.0);
    for (double value = std::ceil(first / x_step) * x_step; value <= last; value += x_step) {
      grid += line("grid", x(value), kTop, x(value), bottom);
      labels += text_at(x(value), bottom + 18, "middle", number_text(value, "%.0f"));
    }
    const double middle = (kTop + bottom) / 2;
    const std::string turned = concat(" transform=\"rotate(-90 18 ", middle, ")\"");
    return grid + line("axis", kLeft, kTop, kLeft, bottom) +
           line("axis", kLeft, bottom, kWidth - kRight, bottom) + labels +
           text_at((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", "chunk") +
           text_at(18, middle, "middle", "perplexity", turned);
  }

  const PlotData& data_;
  const Range range_;
  const size_t step_;         // chunks for each mark
  const int64_t last_chunk_;  // at the right edge
  int64_t high_count_ = 0;
  double highest_ = 0;
};

}  // namespace

std::string plot_svg(const PlotData& data) { return Plot(data).svg(); }

std::string plot_svg(const PplTotal& total) {
  const Estimate result = total.sums().perplexity();
  const PplHeading& heading = total.heading();
  PlotData data;
  data.title = concat("perplexity ", number_text(result.value, "%.4f"), " ± ",
                      number_text(result.error, "%.4f"), ", ", heading.settings.name(), ", ",
                      counted(total.sums().tokens, "token"));
  data.subtitle = concat(printable(heading.model.path, 60), " on ", printable(heading.text, 50));
  data.first = total.first();
  data.points = total.points();
  return plot_svg(data);
}

}  // namespace skald
