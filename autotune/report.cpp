// The report: one HTML page with inline SVG, nothing else to load.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "autotune/samples.h"
#include "core/format.h"

namespace hipflash::autotune {
namespace {

std::string escaped(const std::string& text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '"':
        made += "&quot;";
        break;
      default:
        made += c;
    }
  }
  return made;
}

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,">
<title>hipflash tuning</title>
<style>
:root{color-scheme:light dark;--ink:#1c2733;--paper:#fff;--soft:#445261;--grid:#dde3ea;--link:#1f5f99;--row:#e9f5ee;
--chosen:#1b9e57;--interval:#0d5c31;--default:#1f5f99;--other:#9aa6b3}
@media(prefers-color-scheme:dark){:root{--ink:#e3e8ee;--paper:#14191f;--soft:#a9b5c2;--grid:#323c47;--link:#7db7ec;
--row:#1b3527;--chosen:#3ecb80;--interval:#a6ecc6;--default:#66a8e8;--other:#76828f}}
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:var(--ink);background:var(--paper)}
h1{font-size:1.5em}h2{font-size:1.15em;margin:2em 0 .2em;overflow-wrap:anywhere}
p{margin:.4em 0;max-width:52em}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.25em .8em;text-align:left;border-bottom:1px solid var(--grid)}
td.n,th.n{text-align:right}
tr.chosen td{background:var(--row)}
svg{display:block;margin:.6em 0}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
svg line{stroke-width:2}
line.grid{stroke:var(--grid);stroke-width:1}line.even{stroke:var(--soft);stroke-width:1}line.interval{stroke:var(--interval)}
.chosen line{stroke:var(--chosen)}.default line{stroke:var(--default)}.other line{stroke:var(--other)}
.chosen circle{fill:var(--chosen)}.default circle{fill:var(--default)}.other circle{fill:var(--other)}
.chosen rect{fill:var(--chosen);fill-opacity:.55}
.chosen.default circle{fill:var(--chosen);stroke:var(--default);stroke-width:3}.chosen.default line{stroke:var(--chosen)}
.legend svg{display:inline-block;vertical-align:-.2em;margin:0 .4em 0 0}.legend span{display:inline-block;margin-right:1.6em}
details{margin:.5em 0}summary{cursor:pointer;color:var(--link)}
</style></head><body>
)";

double gflops(const RaceSample& race, double ms) {
  return ms > 0 ? race.flops / ms * 1e-6 : 0.0;
}

// The end of an axis of four steps, each a round number.
double nice_top(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0}) {
    if (value <= step * unit) return step * unit;
  }
  return 10 * unit;
}

const char* class_of(bool chosen, bool is_default) {
  if (chosen) return is_default ? "chosen default" : "chosen";
  return is_default ? "default" : "other";
}

// Speed of every config over the size of the problem, with the confidence of default and chosen.
std::string speed_plot(const std::vector<const RaceSample*>& races) {
  constexpr double kWidth = 760, kHeight = 300, kLeft = 70, kRight = 20, kTop = 14, kBottom = 62;
  double top = 0;
  for (const RaceSample* race : races) {
    for (const ConfigSample& config : race->configs) {
      if (config.rounds > 0) top = std::max(top, gflops(*race, config.ms.low));
    }
  }
  top = nice_top(top);
  const bool tera = top >= 5000;
  const auto y = [&](double speed) {
    return kTop + (kHeight - kTop - kBottom) * (1 - speed / top);
  };
  const auto column = [&](std::size_t i) {
    return kLeft + (kWidth - kLeft - kRight) * (static_cast<double>(i) + 0.5) /
                       static_cast<double>(races.size());
  };
  std::string svg = fmt::format(
      "<div class=\"wide\"><svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"speed over size\">\n",
      kWidth, kHeight);
  const auto out = std::back_inserter(svg);
  for (int i = 0; i <= 4; ++i) {
    const double speed = top * i / 4;
    fmt::format_to(out,
                   "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" "
                   "text-anchor=\"end\">{:.4g}</text>\n",
                   kLeft, y(speed), kWidth - kRight, y(speed), kLeft - 8, y(speed) + 4,
                   tera ? speed / 1000 : speed);
  }
  fmt::format_to(out,
                 "<text x=\"14\" y=\"{0:.1f}\" transform=\"rotate(-90 14 {0:.1f})\" "
                 "text-anchor=\"middle\">{1}</text>\n",
                 (kTop + kHeight - kBottom) / 2, tera ? "TFLOP/s" : "GFLOP/s");
  fmt::format_to(out,
                 "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">queries × keys</text>\n",
                 (kLeft + kWidth - kRight) / 2, kHeight - 6);
  const double room = (kWidth - kLeft - kRight) / static_cast<double>(races.size());
  for (std::size_t i = 0; i < races.size(); ++i) {
    const RaceSample& race = *races[i];
    fmt::format_to(out,
                   "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"middle\">{2} × {3}</text>"
                   "<text x=\"{0:.1f}\" y=\"{4:.1f}\" text-anchor=\"middle\">{5} heads</text>\n",
                   column(i), kHeight - kBottom + 18, race.queries, race.keys,
                   kHeight - kBottom + 34, race.batch * race.heads);
    // Others spread over the column in the order of their speed.
    std::vector<const ConfigSample*> configs;
    for (const ConfigSample& config : race.configs) {
      if (config.rounds > 0) configs.push_back(&config);
    }
    std::sort(configs.begin(), configs.end(), [](const ConfigSample* a, const ConfigSample* b) {
      return a->ms.median > b->ms.median;
    });
    for (std::size_t c = 0; c < configs.size(); ++c) {
      const ConfigSample& config = *configs[c];
      const bool chosen = config.state == "chosen", standard = &config == &race.configs.front();
      const double x =
          column(i) +
          room * 0.7 * ((static_cast<double>(c) + 0.5) / static_cast<double>(configs.size()) - 0.5);
      fmt::format_to(
          out,
          "<g class=\"{}\"><title>{}: {:.4g} GFLOP/s, {:.4g} ms ({:.4g} to {:.4g}), {}</title>"
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/></g>\n",
          class_of(chosen, standard), escaped(plan::to_text(config.tile)),
          gflops(race, config.ms.median), config.ms.median, config.ms.low, config.ms.high,
          escaped(config.state), x, y(gflops(race, config.ms.high)), x,
          y(gflops(race, config.ms.low)), x, y(gflops(race, config.ms.median)),
          chosen || standard ? 5 : 3.5);
    }
  }
  return svg + "</svg></div>\n";
}

// Time of the chosen config over that of the default, one bar with its interval for each problem.
std::string gain_plot(std::vector<RaceSample> races) {
  std::stable_sort(races.begin(), races.end(), [](const RaceSample& a, const RaceSample& b) {
    return std::tie(a.label, a.queries, a.keys) < std::tie(b.label, b.queries, b.keys);
  });
  constexpr double kRow = 20, kLeft = 330, kRight = 30, kWidth = 860, kTop = 44;
  double low = 0.9;
  for (const RaceSample& race : races) {
    if (const ConfigSample* chosen = chosen_of(race)) low = std::min(low, chosen->ratio.low - 0.02);
  }
  const double step = low < 0.75 ? 0.1 : 0.05;
  low = std::floor(low / step) * step;
  const double high = 1.05;
  const double height = kTop + kRow * static_cast<double>(races.size()) + 8;
  const auto x = [&](double ratio) {
    return kLeft + (kWidth - kLeft - kRight) * (ratio - low) / (high - low);
  };
  std::string svg = fmt::format(
      "<div class=\"wide\"><svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"chosen against default\">\n",
      kWidth, height);
  const auto out = std::back_inserter(svg);
  const int lines = static_cast<int>((high - low) / step + 1e-6) + 1;
  for (int line = 0; line < lines; ++line) {
    const double ratio = low + step * line;
    fmt::format_to(out,
                   "<line class=\"{3}\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
                   "<text x=\"{0:.1f}\" y=\"{4}\" text-anchor=\"middle\">{5:.2f}</text>\n",
                   x(ratio), kTop - 6, height - 4, std::abs(ratio - 1) < 1e-6 ? "even" : "grid",
                   kTop - 12, ratio);
  }
  fmt::format_to(
      out,
      "<text x=\"{:.1f}\" y=\"14\" text-anchor=\"middle\">time / time of the default; less is "
      "faster</text>\n",
      (kLeft + kWidth - kRight) / 2);
  double top = kTop;
  for (const RaceSample& race : races) {
    const ConfigSample* const chosen = chosen_of(race);
    const bool standard = !chosen || chosen == &race.configs.front();
    fmt::format_to(out,
                   "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}, {} × {}, {} heads</text>\n",
                   kLeft - 10, top + 14, escaped(race.label), race.queries, race.keys,
                   race.batch * race.heads);
    if (standard) {
      fmt::format_to(out, "<g class=\"{}\"><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/></g>\n",
                     class_of(chosen != nullptr, true), x(1), top + 10);
    } else {
      fmt::format_to(out,
                     "<g class=\"chosen\"><title>{}: {:.3f} ({:.3f} to {:.3f})</title>"
                     "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"12\"/></g>"
                     "<line class=\"interval\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
                     "y2=\"{:.1f}\"/>\n",
                     escaped(plan::to_text(chosen->tile)), chosen->ratio.median, chosen->ratio.low,
                     chosen->ratio.high, x(chosen->ratio.median), top + 4,
                     x(1) - x(chosen->ratio.median), x(chosen->ratio.low), top + 10,
                     x(chosen->ratio.high), top + 10);
    }
    top += kRow;
  }
  return svg + "</svg></div>\n";
}

std::string legend() {
  std::string html;
  for (const auto& [name, words] : {std::pair(class_of(true, false), "chosen over the default"),
                                    std::pair(class_of(true, true), "the default, and chosen"),
                                    std::pair(class_of(false, true), "the default, not chosen"),
                                    std::pair(class_of(false, false), "others")}) {
    html += fmt::format(
        "<span><svg width=\"16\" height=\"16\" aria-hidden=\"true\"><g class=\"{}\"><line x1=\"8\" "
        "y1=\"0\" x2=\"8\" y2=\"16\"/><circle cx=\"8\" cy=\"8\" r=\"5\"/></g></svg>{}</span>",
        name, words);
  }
  return html;
}

std::string table_of(const RaceSample& race) {
  std::string html = fmt::format(
      "<details><summary>{} × {}, {} heads: {} configs</summary>\n<div "
      "class=\"wide\"><table><tr><th>config</th>"
      "<th class=\"n\">median ms</th><th class=\"n\">95% confidence</th><th "
      "class=\"n\">GFLOP/s</th>"
      "<th class=\"n\">time / default</th><th class=\"n\">95% confidence</th><th "
      "class=\"n\">samples</th>"
      "<th>result</th></tr>\n",
      race.queries, race.keys, race.batch * race.heads, race.configs.size());
  const auto out = std::back_inserter(html);
  for (std::size_t i = 0; i < race.configs.size(); ++i) {
    const ConfigSample& c = race.configs[i];
    fmt::format_to(out, "<tr{}><td>{}{}</td>", c.state == "chosen" ? " class=\"chosen\"" : "",
                   escaped(plan::to_text(c.tile)), i == 0 ? " (default)" : "");
    if (c.rounds > 0) {
      fmt::format_to(out,
                     "<td class=\"n\">{:.4f}</td><td class=\"n\">{:.4f} to {:.4f}</td>"
                     "<td class=\"n\">{:.1f}</td><td class=\"n\">{:.3f}</td>"
                     "<td class=\"n\">{:.3f} to {:.3f}</td><td class=\"n\">{}</td>",
                     c.ms.median, c.ms.low, c.ms.high, gflops(race, c.ms.median), c.ratio.median,
                     c.ratio.low, c.ratio.high, c.rounds);
    } else {
      html += "<td></td><td></td><td></td><td></td><td></td><td class=\"n\">0</td>";
    }
    fmt::format_to(out, "<td>{}</td></tr>\n", escaped(c.state));
  }
  return html + "</table></div></details>\n";
}

}  // namespace

std::string report_html(const Fingerprint& device, const std::vector<RaceSample>& races) {
  std::size_t changed = 0;
  std::map<std::string, std::vector<const RaceSample*>> groups;
  for (const RaceSample& race : races) {
    const ConfigSample* const chosen = chosen_of(race);
    changed += chosen && chosen != &race.configs.front();
    groups[race.label + " · " + race.key.family].push_back(&race);
  }
  std::string html = kHead;
  html += fmt::format(
      "<h1>hipflash tuning: {}</h1>\n<p>{}, {} {}. {} problems were measured; in {} of them "
      "another "
      "tile config than the built-in default was chosen.</p>\n"
      "<p>Times are medians of interleaved samples in random order, with their 95% confidence "
      "intervals by order statistics, drawn as lines. A config is chosen only if its whole "
      "interval "
      "lies more than the margin below the default's time; where none does, the default is.</p>\n"
      "<p class=\"legend\">{}</p>\n",
      escaped(device.name), escaped(device.arch), device.compute_units,
      device.platform == "cpu" ? "threads" : "compute units", races.size(), changed, legend());
  html += "<h2>Time of the chosen config over the default's</h2>\n" + gain_plot(races);
  for (auto& [name, group] : groups) {
    std::sort(group.begin(), group.end(), [](const RaceSample* a, const RaceSample* b) {
      return std::pair(a->queries, a->keys) < std::pair(b->queries, b->keys);
    });
    html += fmt::format("<h2>{}</h2>\n", escaped(name)) + speed_plot(group);
    for (const RaceSample* race : group) html += table_of(*race);
  }
  return html + "</body></html>\n";
}

}  // namespace hipflash::autotune
