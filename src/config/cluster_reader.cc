// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/cluster_reader.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "config/cluster_fields.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/config/device_library.h"

namespace quadrille {
namespace {

using internal::ClusterField;

/// Most elements of one array; a cluster of more kinds is a mistake.
constexpr std::size_t kElementsMost = 100'000;

class ClusterReading {
 public:
  explicit ClusterReading(std::string file) : file_(std::move(file)) {}

  ClusterSpec read(const Json& root) {
    ClusterSpec cluster;
    if (!root.is_object()) {
      report(root, "", "the cluster is " + std::string(to_text(root.kind())), "an object");
      return cluster;
    }
    check_keys(root, "", {"version", "name", "measured", "devices", "nodes", "links"});
    read_version(root);
    take_text(root, "name", cluster.name);
    take_text(root, "measured", cluster.measured);
    for_each(root, "devices", false, [&](const Json& element, const std::string& path) {
      cluster.devices.push_back(read_device(element, path));
    });
    for_each(root, "nodes", true, [&](const Json& element, const std::string& path) {
      NodeGroup group;
      take_fields(element, path, internal::node_fields(), {}, group);
      cluster.nodes.push_back(std::move(group));
    });
    for_each(root, "links", true, [&](const Json& element, const std::string& path) {
      cluster.links.push_back(read_link(element, path));
    });
    add_known_devices(cluster);
    return cluster;
  }

  /// Findings on values, at the line of the value or of the object around it.
  void add(std::vector<Diagnostic> found, const Json& root) {
    for (Diagnostic& diagnostic : found) {
      diagnostic.file = file_;
      diagnostic.line = line_of(root, diagnostic.path);
      diagnostics_.push_back(std::move(diagnostic));
    }
  }
  [[nodiscard]] bool sound() const { return diagnostics_.empty(); }
  [[nodiscard]] std::vector<Diagnostic> take() { return std::move(diagnostics_); }

 private:
  void report(const Json& at, std::string path, std::string wrong, std::string right) {
    diagnostics_.push_back({file_, at.line(), std::move(path), std::move(wrong), std::move(right)});
  }

  static std::string joined(std::string_view path, std::string_view key) {
    return path.empty() ? std::string(key) : std::string(path) + "." + std::string(key);
  }

  void check_keys(const Json& object, const std::string& path,
                  const std::vector<std::string_view>& known) {
    for (const auto& [key, value] : object.members()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const auto nearest = nearest_word(key, known);
      report(value, joined(path, key), "unknown key",
             nearest ? '"' + std::string(*nearest) + '"' : "one of the keys of this object");
    }
  }

  void read_version(const Json& root) {
    const Json* version = root.find("version");
    if (version == nullptr || !version->is_integer() ||
        version->as_integer() != internal::kClusterVersion) {
      report(version == nullptr ? root : *version, "version",
             version == nullptr ? "missing" : "another version",
             std::to_string(internal::kClusterVersion));
    }
  }

  void take_text(const Json& object, std::string_view key, std::string& slot) {
    const Json* value = object.find(key);
    if (value == nullptr) return;
    if (value->is_string()) {
      slot = value->as_string();
    } else {
      report(*value, std::string(key), std::string(to_text(value->kind())), "a string");
    }
  }

  template <class Body>
  void for_each(const Json& root, std::string_view key, bool required, const Body& body) {
    const Json* array = root.find(key);
    if (array == nullptr && !required) return;
    if (array == nullptr || !array->is_array()) {
      report(array == nullptr ? root : *array, std::string(key),
             array == nullptr ? "missing" : std::string(to_text(array->kind())), "an array");
      return;
    }
    if (array->elements().size() > kElementsMost) {
      report(*array, std::string(key), std::to_string(array->elements().size()) + " elements",
             "groups of like nodes, at most " + std::to_string(kElementsMost));
      return;
    }
    for (std::size_t i = 0; i < array->elements().size(); ++i) {
      const Json& element = array->elements()[i];
      const std::string path = std::string(key) + "[" + std::to_string(i) + "]";
      if (element.is_object()) {
        body(element, path);
      } else {
        report(element, path, std::string(to_text(element.kind())), "an object");
      }
    }
  }

  template <class Object>
  void take_fields(const Json& json, const std::string& path,
                   std::span<const ClusterField<Object>> fields,
                   std::vector<std::string_view> others, Object& object) {
    for (const auto& field : fields) others.push_back(field.key);
    check_keys(json, path, others);
    for (const auto& field : fields) {
      const Json* value = json.find(field.key);
      if (value != nullptr) {
        take_value(*value, joined(path, field.key), field, object);
      } else if (field.required) {
        report(json, joined(path, field.key), "missing", "a value");
      }
    }
  }

  template <class Object>
  void take_value(const Json& value, const std::string& path, const ClusterField<Object>& field,
                  Object& object) {
    using Field = ClusterField<Object>;
    if (const auto* text = std::get_if<typename Field::Text>(&field.slot)) {
      if (!value.is_string()) return report_kind(value, path, "a string");
      (*text)(object) = value.as_string();
    } else if (const auto* whole = std::get_if<typename Field::Whole>(&field.slot)) {
      if (!value.is_integer()) return report_kind(value, path, "a whole number");
      (*whole)(object) = value.as_integer();
    } else {
      take_number(value, path, field, object);
    }
  }

  template <class Object>
  void take_number(const Json& value, const std::string& path, const ClusterField<Object>& field,
                   Object& object) {
    using Field = ClusterField<Object>;
    if (!value.is_number()) return report_kind(value, path, "a number");
    const double number = value.as_number() * field.scale;
    if (const auto* real = std::get_if<typename Field::Real>(&field.slot)) {
      (*real)(object) = number;
    } else if (const auto* duration = std::get_if<typename Field::Duration>(&field.slot)) {
      (*duration)(object) = Seconds(number);
    } else {
      constexpr double kBytesMost = 1e18;
      if (!(number >= 0 && number <= kBytesMost)) {
        return report(value, path, "out of range", "at least 0, below 10^18 bytes");
      }
      std::get<typename Field::Size>(field.slot)(object) =
          Bytes(static_cast<std::int64_t>(std::llround(number)));
    }
  }

  void report_kind(const Json& value, const std::string& path, std::string right) {
    report(value, path, std::string(to_text(value.kind())), std::move(right));
  }

  DeviceSpec read_device(const Json& json, const std::string& path) {
    DeviceSpec device;
    if (const Json* like = json.find("like"); like != nullptr) {
      const DeviceSpec* known = like->is_string() ? find_known_device(like->as_string()) : nullptr;
      if (known != nullptr) {
        device = *known;
      } else {
        report(*like, joined(path, "like"), "no such device is known", "a name of the library");
      }
    }
    take_fields(json, path, internal::device_fields(),
                {"like", "peak_tflops", "efficiency", "recalled"}, device);
    if (const Json* peaks = json.find("peak_tflops"); peaks != nullptr) {
      read_peaks(*peaks, joined(path, "peak_tflops"), device);
    }
    if (const Json* shares = json.find("efficiency"); shares != nullptr) {
      const std::string at = joined(path, "efficiency");
      if (!shares->is_object()) {
        report_kind(*shares, at, "an object");
      } else {
        take_fields(*shares, at, internal::efficiency_fields(), {}, device.efficiency);
      }
    }
    if (const Json* recalled = json.find("recalled"); recalled != nullptr && recalled->is_array()) {
      device.recalled.clear();
      for (const Json& field : recalled->elements()) {
        if (field.is_string()) device.recalled.push_back(field.as_string());
      }
    }
    return device;
  }

  void read_peaks(const Json& peaks, const std::string& path, DeviceSpec& device) {
    constexpr double kTera = 1e12;
    if (!peaks.is_object()) return report_kind(peaks, path, "an object");
    for (const auto& [key, value] : peaks.members()) {
      const auto format = kNumberFormatText.value(key);
      if (!format) {
        report(value, joined(path, key), "unknown number format", kNumberFormatText.choices());
      } else if (!value.is_number()) {
        report_kind(value, joined(path, key), "a number");
      } else {
        device.peak[static_cast<std::size_t>(*format)] = value.as_number() * kTera;
      }
    }
  }

  LinkLevel read_link(const Json& json, const std::string& path) {
    LinkLevel level;
    if (const Json* name = json.find("name"); name != nullptr && name->is_string()) {
      if (const LinkLevel* known = find_known_link(name->as_string())) level = *known;
    }
    take_fields(json, path, internal::link_fields(), {}, level);
    return level;
  }

  /// Devices that nodes name and the file does not describe.
  static void add_known_devices(ClusterSpec& cluster) {
    for (const NodeGroup& group : cluster.nodes) {
      if (cluster.find_device(group.device) != nullptr) continue;
      const auto library = device_library();
      const auto known =
          std::find_if(library.begin(), library.end(),
                       [&](const DeviceSpec& device) { return device.name == group.device; });
      if (known != library.end()) cluster.devices.push_back(*known);
    }
  }

  /// The line of the value at a path like `links[1].gb_per_s`, or of the nearest around it.
  static int line_of(const Json& root, const std::string& path) {
    const Json* at = &root;
    int line = root.line();
    for (std::string part : split(path, '.')) {
      std::size_t index = std::string::npos;
      if (const std::size_t open = part.find('['); open != std::string::npos) {
        index = static_cast<std::size_t>(std::atoll(part.c_str() + open + 1));
        part.resize(open);
      }
      at = at->is_object() ? at->find(part) : nullptr;
      if (at != nullptr && index != std::string::npos) {
        const bool there = at->is_array() && index < at->elements().size();
        at = there ? &at->elements()[index] : nullptr;
      }
      if (at == nullptr) return line;
      line = at->line();
    }
    return line;
  }

  std::string file_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace

Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& file) {
  QD_ASSIGN_OR_RETURN(const Json root, parse_json(text, {.file = file, .comments = true}));
  ClusterReading reading(file);
  ClusterSpec cluster = reading.read(root);
  reading.add(check_cluster(cluster), root);
  if (reading.sound()) return cluster;
  auto diagnostics = reading.take();
  std::stable_sort(diagnostics.begin(), diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.line < b.line; });
  return fail(Error{Code::kInvalid, "the cluster cannot be used", std::move(diagnostics)});
}

Result<ClusterSpec> read_cluster_file(const std::string& path) {
  QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  return parse_cluster(text, path);
}

}  // namespace quadrille
