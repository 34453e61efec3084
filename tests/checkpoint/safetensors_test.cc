// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include "checkpoint/sample_model.h"
#include "quadrille/base/json.h"

namespace quadrille {
namespace {

using checkpoint_test::Folder;
using checkpoint_test::sample_bytes;
using checkpoint_test::sample_forms;
using ::testing::HasSubstr;

/// A whole file from the JSON of its header and the number of bytes of data.
std::string file_of(const std::string& json, std::size_t data) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(json.size() >> (8 * i));
  return text + json + std::string(data, 'x');
}

Result<SafetensorsFile> open_text(const Folder& folder, const std::string& text) {
  const std::string path = folder.path("file.safetensors");
  EXPECT_TRUE(write_file_atomically(path, text).has_value());
  return SafetensorsFile::open(path);
}

std::string write_sample(const Folder& folder) {
  const std::string path = folder.path("sample.safetensors");
  auto writer = SafetensorsWriter::create(path, sample_forms()).value();
  for (const SafetensorsTensor& form : sample_forms()) {
    // In two pieces, to show that they need not be whole tensors.
    const auto bytes = sample_bytes(form, 1);
    const std::size_t half = bytes.size() / 2;
    EXPECT_TRUE(writer.append(std::span(bytes).first(half)).has_value());
    EXPECT_TRUE(writer.append(std::span(bytes).subspan(half)).has_value());
  }
  EXPECT_TRUE(writer.close().has_value());
  EXPECT_EQ(static_cast<std::size_t>(writer.size().count()), read_text_file(path).value().size());
  return path;
}

TEST(Safetensors, GivesBackWhatWasWritten) {
  const Folder folder(true);
  const auto file = SafetensorsFile::open(write_sample(folder));
  ASSERT_TRUE(file.has_value()) << file.error().to_text();
  ASSERT_EQ(file->header().tensors.size(), sample_forms().size());
  for (const SafetensorsTensor& form : sample_forms()) {
    const SafetensorsTensor* found = file->find(form.name);
    ASSERT_NE(found, nullptr) << form.name;
    EXPECT_EQ(found->dtype, form.dtype);
    EXPECT_EQ(found->shape, form.shape);
    std::vector<std::byte> bytes(static_cast<std::size_t>(form.bytes().count()));
    ASSERT_TRUE(file->read(*found, Bytes(0), bytes).has_value());
    EXPECT_EQ(bytes, sample_bytes(form, 1)) << form.name;
  }
  EXPECT_EQ(file->find("absent"), nullptr);
}

TEST(Safetensors, DataBeginsAtAMultipleOfEightWhateverTheNames) {
  for (std::size_t length = 1; length < 20; ++length) {
    const SafetensorsTensor tensor{std::string(length, 'n'), StoredType::kF32, {1}, {}};
    EXPECT_EQ(write_safetensors_header(std::span(&tensor, 1)).size() % 8, 0u);
  }
}

// The byte layout of the format, written out by hand.
TEST(Safetensors, ReadsAFileOfAnotherWriter) {
  const Folder folder(true);
  const auto file =
      open_text(folder, file_of(R"({"b":{"dtype":"U8","shape":[2,2],"data_offsets":[4,8]},)"
                                R"("__metadata__":{"format":"np"},)"
                                R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}  )",
                                8));
  ASSERT_TRUE(file.has_value()) << file.error().to_text();
  EXPECT_EQ(file->header().tensors[0].name, "a");
  EXPECT_EQ(file->header().tensors[1].shape, (Shape{2, 2}));
  EXPECT_EQ(file->header().metadata[0].second, "np");
}

struct Bad {
  const char* json;
  std::size_t data;
  const char* said;
};

TEST(Safetensors, RefusesHeadersThatDoNotFitTheirData) {
  const Folder folder(true);
  const Bad cases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "do not lie within"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 12, "end at 8 of 12"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "leaving a gap"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, "inside the one"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "has 12"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "do not lie within"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8, "do not lie within"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "two whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "whole number"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "2^63"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})", 0,
       "2^63"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[0,4]}})", 4, "5 dimensions"},
      {R"({"a":{"dtype":"F8","shape":[2],"data_offsets":[0,4]}})", 4, "not supported"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "\"shape\" is missing"},
      {R"({"a":7})", 4, "not described"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "a"},
      {R"({"__metadata__":{"x":1}})", 0, "not a string"},
      {R"([])", 0, "no JSON object"},
      {R"({)", 0, "damaged"},
  };
  for (const Bad& bad : cases) {
    const auto file = open_text(folder, file_of(bad.json, bad.data));
    ASSERT_FALSE(file.has_value()) << bad.json;
    EXPECT_THAT(file.error().to_text(), HasSubstr(bad.said)) << bad.json;
    EXPECT_THAT(file.error().to_text(), HasSubstr("file.safetensors"));
  }
}

TEST(Safetensors, RefusesALengthBeyondTheFileBeforeReadingOn) {
  const Folder folder(true);
  for (const std::size_t length : {std::size_t{3}, std::size_t{1} << 40, ~std::size_t{0}}) {
    std::string text(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i));
    const auto file = open_text(folder, text + "{}");
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(open_text(folder, "").has_value());
  EXPECT_FALSE(open_text(folder, "1234567").has_value());
}

TEST(Safetensors, EveryTruncationIsFound) {
  const Folder folder(true);
  const std::string path = write_sample(folder);
  const std::string text = read_text_file(path).value();
  for (std::size_t length = 0; length < text.size(); length += length < 700 ? 1 : 37) {
    EXPECT_FALSE(open_text(folder, text.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(open_text(folder, text + "x").has_value());
}

// What a damaged file says is either refused or lies within the file: no crash, no wild read.
TEST(Safetensors, SurvivesAnyDamage) {
  const Folder folder(true);
  const std::string text = read_text_file(write_sample(folder)).value();
  const RandomStream random(1, RandomPurpose::kTest, 99);
  int accepted = 0;
  for (std::uint64_t round = 0; round < 1500; ++round) {
    std::string damaged = text;
    const std::uint32_t changes = 1 + random.bits(round * 16) % 3;
    for (std::uint32_t change = 0; change < changes; ++change) {
      const std::uint64_t at = round * 16 + 1 + change * 2;
      damaged[random.bits(at) % 800] = static_cast<char>(random.bits(at + 1));
    }
    const auto file = open_text(folder, damaged);
    if (!file) continue;
    ++accepted;
    for (const SafetensorsTensor& tensor : file->header().tensors) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().count()));
      EXPECT_TRUE(file->read(tensor, Bytes(0), bytes).has_value());
    }
  }
  EXPECT_GT(accepted, 0) << "no damage hit a name: the reading was not tried";
}

}  // namespace
}  // namespace quadrille
