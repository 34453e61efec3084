// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "quadrille/config/cluster_spec.h"

namespace quadrille {
namespace {

class ClusterChecks {
 public:
  explicit ClusterChecks(const ClusterSpec& cluster) : cluster_(cluster) {}

  std::vector<Diagnostic> all() {
    check_devices();
    check_nodes();
    check_links();
    return std::move(diagnostics_);
  }

 private:
  void report(std::string path, std::string wrong, std::string right) {
    diagnostics_.push_back({"", 0, std::move(path), std::move(wrong), std::move(right)});
  }

  static std::string number(double value) {
    std::string text = std::to_string(value);
    while (text.size() > 1 && text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text;
  }

  void positive(double value, const std::string& path, double unit) {
    if (std::isfinite(value) && value > 0) return;
    report(path, value == 0 ? "0 or missing" : number(value / unit), "a number above 0");
  }
  /// A share of a peak; `optional` ones may be 0: the device has no such units.
  void share(double value, const std::string& path, bool optional = false) {
    constexpr double kMost = 1.5;  // A link's gains beyond its sheet happen; ten times do not.
    if (value >= 0 && value <= kMost && (optional || value > 0)) return;
    report(path, number(value), optional ? "from 0 to 1.5" : "above 0, up to 1.5");
  }
  void duration(Seconds value, const std::string& path) {
    if (value.count() >= 0 && value.count() <= 1) return;
    report(path, number(value.count() * 1e6), "from 0 to 1,000,000");
  }

  void check_devices() {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < cluster_.devices.size(); ++i) {
      const DeviceSpec& device = cluster_.devices[i];
      const std::string path = "devices[" + std::to_string(i) + "]";
      if (device.name.empty()) report(path + ".name", "empty", "a name");
      if (!names.insert(device.name).second) {
        report(path + ".name", '"' + device.name + "\" is described twice", "one description");
      }
      if (device.memory.count() <= 0)
        report(path + ".memory_gib", "0 or missing", "a number above 0");
      positive(device.memory_bandwidth, path + ".memory_gb_per_s", 1e9);
      check_peaks(device, path + ".peak_tflops");
      check_efficiency(device.efficiency, path + ".efficiency");
    }
  }

  void check_peaks(const DeviceSpec& device, const std::string& path) {
    bool any = false;
    for (const auto& [format, text] : kNumberFormatText.rows) {
      const double peak = device.peak_of(format);
      any = any || peak > 0;
      if (std::isfinite(peak) && peak >= 0) continue;
      report(path + "." + std::string(text), number(peak / 1e12), "a number from 0");
    }
    if (!any) report(path, "no number format has a peak", "Tflop/s of at least one");
  }

  void check_efficiency(const DeviceEfficiency& shares, const std::string& path) {
    share(shares.matmul, path + ".matmul");
    share(shares.matmul_fp8, path + ".matmul_fp8", true);
    share(shares.matmul_fp4, path + ".matmul_fp4", true);
    share(shares.attention, path + ".attention");
    share(shares.attention_portable, path + ".attention_portable");
    share(shares.memory, path + ".memory");
    if (!(shares.tile >= 0 && shares.tile <= 1e6)) {
      report(path + ".tile", number(shares.tile), "from 0 to 1,000,000");
    }
    duration(shares.kernel, path + ".kernel_us");
    duration(shares.launch, path + ".launch_us");
  }

  void check_nodes() {
    if (cluster_.nodes.empty()) report("nodes", "no nodes", "at least one group of nodes");
    double sum = 0;
    std::set<std::string_view> known;
    for (const DeviceSpec& device : cluster_.devices) known.insert(device.name);
    for (std::size_t i = 0; i < cluster_.nodes.size(); ++i) {
      const NodeGroup& group = cluster_.nodes[i];
      const std::string path = "nodes[" + std::to_string(i) + "]";
      if (!known.contains(group.device)) {
        report(path + ".device", '"' + group.device + "\" is not described and not in the library",
               "a device of `devices` or of the library");
      }
      if (group.count < 1) report(path + ".count", std::to_string(group.count), "at least 1");
      if (group.devices_per_node < 1) {
        report(path + ".devices_per_node", std::to_string(group.devices_per_node), "at least 1");
      }
      sum += static_cast<double>(group.count) * static_cast<double>(group.devices_per_node);
    }
    if (sum > static_cast<double>(kDevicesMost)) {
      report("nodes", number(sum) + " devices", "at most " + std::to_string(kDevicesMost));
    } else {
      devices_ = static_cast<std::int64_t>(sum);
    }
  }

  void check_links() {
    std::int64_t reached = 1;
    for (std::size_t i = 0; i < cluster_.links.size(); ++i) {
      const LinkLevel& level = cluster_.links[i];
      const std::string path = "links[" + std::to_string(i) + "]";
      positive(level.bandwidth, path + ".gb_per_s", 1e9);
      duration(level.latency, path + ".latency_us");
      share(level.efficiency, path + ".efficiency");
      if (!(level.switch_sum >= 1 && level.switch_sum <= 4)) {
        report(path + ".switch_sum", number(level.switch_sum), "from 1 to 4");
      }
      if (!(level.taper >= 0 && level.taper <= 1)) {
        report(path + ".taper", number(level.taper), "from 0 to 1");
      }
      check_span(level, path, reached);
    }
    if (!devices_ || reached == kAll || reached >= *devices_) return;
    report("links",
           "no path between the first " + std::to_string(reached) + " devices and the other " +
               std::to_string(*devices_ - reached),
           "a level that spans all " + std::to_string(*devices_) + " (spans 0)");
  }

  static constexpr std::int64_t kAll = 0;

  void check_span(const LinkLevel& level, const std::string& path, std::int64_t& reached) {
    if (level.spans < 0) {
      report(path + ".spans", std::to_string(level.spans), "0 (all) or a number of devices");
    } else if (reached == kAll) {
      report(path + ".spans", "a level outside one that spans all", "levels from inner to outer");
    } else if (level.spans != kAll && (level.spans < reached || level.spans % reached != 0)) {
      report(path + ".spans", std::to_string(level.spans),
             "a multiple of the " + std::to_string(reached) + " devices of the level inside");
    } else {
      reached = level.spans;
    }
  }

  const ClusterSpec& cluster_;
  std::optional<std::int64_t> devices_;  ///< Where the nodes are sound.
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace

std::vector<Diagnostic> check_cluster(const ClusterSpec& cluster) {
  return ClusterChecks(cluster).all();
}

}  // namespace quadrille
