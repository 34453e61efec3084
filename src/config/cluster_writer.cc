// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/cluster_fields.h"
#include "quadrille/config/cluster_reader.h"

namespace quadrille {
namespace {

using internal::ClusterField;

/// One that the reader's product with `scale` turns into `value` again.
double unscaled(double value, double scale) {
  double written = value / scale;
  for (int i = 0; i < 4 && written * scale != value; ++i) {
    written += (value - written * scale) / scale;
  }
  return written;
}

template <class Object>
Json written(Object object, std::span<const ClusterField<Object>> fields) {
  using Field = ClusterField<Object>;
  Json json = Json::object();
  for (const auto& field : fields) {
    if (const auto* text = std::get_if<typename Field::Text>(&field.slot)) {
      json.set(field.key, (*text)(object));
    } else if (const auto* whole = std::get_if<typename Field::Whole>(&field.slot)) {
      json.set(field.key, (*whole)(object));
    } else if (const auto* real = std::get_if<typename Field::Real>(&field.slot)) {
      json.set(field.key, unscaled((*real)(object), field.scale));
    } else if (const auto* duration = std::get_if<typename Field::Duration>(&field.slot)) {
      json.set(field.key, unscaled((*duration)(object).count(), field.scale));
    } else {
      const Bytes bytes = std::get<typename Field::Size>(field.slot)(object);
      json.set(field.key, static_cast<double>(bytes.count()) / field.scale);
    }
  }
  return json;
}

Json written_device(const DeviceSpec& device) {
  constexpr double kTera = 1e12;
  Json json = written(device, internal::device_fields());
  Json peaks = Json::object();
  for (const auto& [format, text] : kNumberFormatText.rows) {
    if (device.peak_of(format) > 0) peaks.set(text, unscaled(device.peak_of(format), kTera));
  }
  json.set("peak_tflops", std::move(peaks));
  json.set("efficiency", written(device.efficiency, internal::efficiency_fields()));
  if (!device.recalled.empty()) {
    Json recalled = Json::array();
    for (const std::string& field : device.recalled) recalled.push(field);
    json.set("recalled", std::move(recalled));
  }
  return json;
}

}  // namespace

Json to_json(const ClusterSpec& cluster) {
  Json json = Json::object();
  json.set("version", internal::kClusterVersion).set("name", cluster.name);
  if (!cluster.measured.empty()) json.set("measured", cluster.measured);
  Json devices = Json::array();
  for (const DeviceSpec& device : cluster.devices) devices.push(written_device(device));
  Json nodes = Json::array();
  for (const NodeGroup& group : cluster.nodes) nodes.push(written(group, internal::node_fields()));
  Json links = Json::array();
  for (const LinkLevel& level : cluster.links) links.push(written(level, internal::link_fields()));
  json.set("devices", std::move(devices));
  json.set("nodes", std::move(nodes));
  json.set("links", std::move(links));
  return json;
}

}  // namespace quadrille
