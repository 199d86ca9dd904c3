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
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>hipflash tuning</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#1c2733;background:#fff}
h1{font-size:1.5em}h2{font-size:1.15em;margin:2em 0 .2em}
p{margin:.4em 0;max-width:52em}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:.25em .8em;text-align:left;border-bottom:1px solid #dde3ea}
td.n,th.n{text-align:right}
tr.chosen td{background:#e9f5ee}
svg{display:block;margin:.6em 0;max-width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:#445261}
.legend span{display:inline-block;margin-right:1.6em}.legend i{display:inline-block;width:1em;height:.75em;margin-right:.4em}
details{margin:.5em 0}summary{cursor:pointer;color:#1f5f99}
</style></head><body>
)";

constexpr const char* kChosen = "#1b9e57";
constexpr const char* kDefault = "#1f5f99";
constexpr const char* kOther = "#b4bec9";

const ConfigSample* chosen_of(const RaceSample& race) {
  for (const ConfigSample& config : race.configs) {
    if (config.state == "chosen") return &config;
  }
  return nullptr;
}

double gflops(const RaceSample& race, double ms) {
  return ms > 0 ? race.flops / ms * 1e-6 : 0.0;
}

double nice_top(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0}) {
    if (value <= step * unit) return step * unit;
  }
  return 10 * unit;
}

// Speed of every config over the size of the problem, with the confidence of default and chosen.
std::string speed_plot(const std::vector<const RaceSample*>& races) {
  constexpr double kWidth = 760, kHeight = 300, kLeft = 70, kRight = 20, kTop = 14, kBottom = 46;
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
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"speed over size\">\n",
      kWidth, kHeight);
  const auto out = std::back_inserter(svg);
  for (int i = 0; i <= 4; ++i) {
    const double speed = top * i / 4;
    fmt::format_to(out,
                   "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
                   "stroke=\"#dde3ea\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
                   "text-anchor=\"end\">{:.4g}</text>\n",
                   kLeft, y(speed), kWidth - kRight, y(speed), kLeft - 8, y(speed) + 4,
                   tera ? speed / 1000 : speed);
  }
  fmt::format_to(out,
                 "<text x=\"14\" y=\"{0:.1f}\" transform=\"rotate(-90 14 {0:.1f})\" "
                 "text-anchor=\"middle\">{1}</text>\n",
                 (kTop + kHeight - kBottom) / 2, tera ? "TFLOP/s" : "GFLOP/s");
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
      const char* const color = chosen ? kChosen : standard ? kDefault : kOther;
      fmt::format_to(out,
                     "<g><title>{}: {:.4g} GFLOP/s, {:.4g} ms ({:.4g} to {:.4g}), {}</title>"
                     "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
                     "stroke-width=\"2\"/><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" "
                     "fill=\"{}\"/></g>\n",
                     escaped(plan::to_text(config.tile)), gflops(race, config.ms.median),
                     config.ms.median, config.ms.low, config.ms.high, escaped(config.state), x,
                     y(gflops(race, config.ms.high)), x, y(gflops(race, config.ms.low)), color, x,
                     y(gflops(race, config.ms.median)), chosen || standard ? 5 : 3.5, color);
    }
  }
  return svg + "</svg>\n";
}

// Time of the chosen config over that of the default, one bar with its interval for each problem.
std::string gain_plot(std::vector<RaceSample> races) {
  std::stable_sort(races.begin(), races.end(), [](const RaceSample& a, const RaceSample& b) {
    return std::tie(a.label, a.queries, a.keys) < std::tie(b.label, b.queries, b.keys);
  });
  constexpr double kRow = 20, kLeft = 330, kRight = 30, kWidth = 860, kTop = 26;
  double low = 0.9;
  for (const RaceSample& race : races) {
    if (const ConfigSample* chosen = chosen_of(race)) low = std::min(low, chosen->ratio.low - 0.02);
  }
  low = std::floor(low * 20) / 20;
  const double high = 1.05;
  const double height = kTop + kRow * static_cast<double>(races.size()) + 8;
  const auto x = [&](double ratio) {
    return kLeft + (kWidth - kLeft - kRight) * (ratio - low) / (high - low);
  };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"chosen against default\">\n",
      kWidth, height);
  const auto out = std::back_inserter(svg);
  const double step = high - low > 0.3 ? 0.1 : 0.05;
  for (double ratio = low; ratio <= high + 1e-9; ratio += step) {
    fmt::format_to(out,
                   "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\"/>"
                   "<text x=\"{0:.1f}\" y=\"{4}\" text-anchor=\"middle\">{5:.2f}</text>\n",
                   x(ratio), kTop - 6, height - 4,
                   std::abs(ratio - 1) < 1e-6 ? "#445261" : "#dde3ea", kTop - 12, ratio);
  }
  double top = kTop;
  for (const RaceSample& race : races) {
    const ConfigSample* const chosen = chosen_of(race);
    const bool standard = !chosen || chosen == &race.configs.front();
    fmt::format_to(out,
                   "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}, {} × {}, {} heads</text>\n",
                   kLeft - 10, top + 14, escaped(race.label), race.queries, race.keys,
                   race.batch * race.heads);
    if (standard) {
      fmt::format_to(out, "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x(1),
                     top + 10, kDefault);
    } else {
      fmt::format_to(out,
                     "<g><title>{}: {:.3f} ({:.3f} to {:.3f})</title>"
                     "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"12\" fill=\"{}\" "
                     "fill-opacity=\"0.55\"/><line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
                     "y2=\"{:.1f}\" stroke=\"#0d5c31\" stroke-width=\"2\"/></g>\n",
                     escaped(plan::to_text(chosen->tile)), chosen->ratio.median, chosen->ratio.low,
                     chosen->ratio.high, x(chosen->ratio.median), top + 4,
                     x(1) - x(chosen->ratio.median), kChosen, x(chosen->ratio.low), top + 10,
                     x(chosen->ratio.high), top + 10);
    }
    top += kRow;
  }
  return svg + "</svg>\n";
}

std::string table_of(const RaceSample& race) {
  std::string html = fmt::format(
      "<details><summary>{} × {}, {} heads: {} configs</summary>\n<table><tr><th>config</th>"
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
  return html + "</table></details>\n";
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
      "intervals by order statistics. A config is chosen only if its whole interval lies more than "
      "the margin below the default's time.</p>\n"
      "<p class=\"legend\"><span><i style=\"background:{}\"></i>chosen</span>"
      "<span><i style=\"background:{}\"></i>built-in default</span>"
      "<span><i style=\"background:{}\"></i>others</span></p>\n",
      escaped(device.name), escaped(device.arch), device.compute_units,
      device.platform == "cpu" ? "threads" : "compute units", races.size(), changed, kChosen,
      kDefault, kOther);
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
