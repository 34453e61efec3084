// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/json.h"

#include "quadrille/base/check.h"

namespace quadrille {

bool Json::as_bool() const {
  QD_CHECK(is_bool());
  return bool_;
}

std::int64_t Json::as_integer() const {
  QD_CHECK(is_integer());
  return integer_;
}

double Json::as_number() const {
  QD_CHECK(is_number());
  return is_integer() ? static_cast<double>(integer_) : real_;
}

const std::string& Json::as_string() const {
  QD_CHECK(is_string());
  return string_;
}

const std::vector<Json>& Json::elements() const {
  QD_CHECK(is_array());
  return elements_;
}

const std::vector<Json::Member>& Json::members() const {
  QD_CHECK(is_object());
  return members_;
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members_) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::int64_t Json::integer_or(std::string_view key, std::int64_t otherwise) const {
  const Json* value = find(key);
  return value != nullptr && value->is_integer() ? value->integer_ : otherwise;
}

double Json::number_or(std::string_view key, double otherwise) const {
  const Json* value = find(key);
  return value != nullptr && value->is_number() ? value->as_number() : otherwise;
}

std::string Json::string_or(std::string_view key, std::string_view otherwise) const {
  const Json* value = find(key);
  return value != nullptr && value->is_string() ? value->string_ : std::string(otherwise);
}

bool Json::bool_or(std::string_view key, bool otherwise) const {
  const Json* value = find(key);
  return value != nullptr && value->is_bool() ? value->bool_ : otherwise;
}

Json& Json::set(std::string_view key, Json value) {
  at_or_insert(key) = std::move(value);
  return *this;
}

Json& Json::at_or_insert(std::string_view key) {
  if (is_null()) kind_ = Kind::kObject;
  QD_CHECK(is_object());
  for (auto& [name, value] : members_) {
    if (name == key) return value;
  }
  return members_.emplace_back(std::string(key), Json()).second;
}

Json& Json::push(Json value) {
  if (is_null()) kind_ = Kind::kArray;
  QD_CHECK(is_array());
  elements_.push_back(std::move(value));
  return *this;
}

bool operator==(const Json& a, const Json& b) {
  if (a.kind_ != b.kind_) return false;
  switch (a.kind_) {
    case Json::Kind::kNull:
      return true;
    case Json::Kind::kBool:
      return a.bool_ == b.bool_;
    case Json::Kind::kInteger:
      return a.integer_ == b.integer_;
    case Json::Kind::kReal:
      return a.real_ == b.real_;
    case Json::Kind::kString:
      return a.string_ == b.string_;
    case Json::Kind::kArray:
      return a.elements_ == b.elements_;
    case Json::Kind::kObject:
      break;
  }
  // An object's order carries no meaning, so it is not compared.
  if (a.members_.size() != b.members_.size()) return false;
  for (std::size_t i = 0; i < a.members_.size(); ++i) {
    const auto& [key, value] = a.members_[i];
    const Json* other = b.members_[i].first == key ? &b.members_[i].second : b.find(key);
    if (other == nullptr || !(value == *other)) return false;
  }
  return true;
}

std::string_view to_text(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kBool:
      return "true or false";
    case Json::Kind::kInteger:
      return "a whole number";
    case Json::Kind::kReal:
      return "a number";
    case Json::Kind::kString:
      return "a string";
    case Json::Kind::kArray:
      return "an array";
    case Json::Kind::kObject:
      return "an object";
  }
  return "?";
}

}  // namespace quadrille
