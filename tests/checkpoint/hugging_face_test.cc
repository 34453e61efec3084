// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "checkpoint/hugging_face_fixture.h"
#include "checkpoint/hugging_face_layout.h"
#include "quadrille/base/file.h"
#include "quadrille/config/hugging_face.h"

namespace quadrille {
namespace {

using checkpoint_test::FileTensor;
using checkpoint_test::golden_cases;
using checkpoint_test::golden_folder;
using checkpoint_test::model_of;
using checkpoint_test::ScratchFolder;
using checkpoint_test::tensors_of;
using checkpoint_test::write_weights;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Imports and exports a golden folder; the exported one.
std::string there_and_back(const ScratchFolder& scratch, const std::string& name, Bytes shard) {
  const auto imported = import_hugging_face(golden_folder(name), scratch.path(name + ".in"));
  EXPECT_TRUE(imported.has_value()) << imported.error().to_text();
  const auto checkpoint = Checkpoint::open(*imported);
  EXPECT_TRUE(checkpoint.has_value()) << checkpoint.error().to_text();
  EXPECT_TRUE(checkpoint->verify().has_value());
  const auto out = export_hugging_face(*checkpoint, {scratch.path(name + ".out"), shard});
  EXPECT_TRUE(out.has_value()) << out.error().to_text();
  return scratch.path(name + ".out");
}

/// Opens what is left of gpt2_untied after `change`, as its model.
std::string open_changed(const std::function<void(std::vector<FileTensor>&)>& change,
                         const std::string& of = "gpt2_untied") {
  const ScratchFolder scratch;
  std::vector<FileTensor> tensors = tensors_of(golden_folder(of));
  change(tensors);
  write_weights(scratch.path("model.safetensors"), tensors);
  const auto folder = HuggingFaceFolder::open(scratch.path(""), model_of(golden_folder(of)));
  return folder ? "opened" : folder.error().to_text();
}

TEST(HuggingFace, ImportAndExportGiveBackWhatTransformersWrote) {
  const ScratchFolder scratch;
  for (const std::string& name : golden_cases()) {
    const auto out = tensors_of(there_and_back(scratch, name, Bytes(1 << 30)));
    const auto in = tensors_of(golden_folder(name));
    ASSERT_EQ(out.size(), in.size()) << name;
    for (std::size_t i = 0; i < in.size(); ++i) {
      EXPECT_EQ(out[i].form.name, in[i].form.name);
      EXPECT_EQ(out[i].form.shape, in[i].form.shape) << in[i].form.name;
      EXPECT_EQ(out[i].form.dtype, StoredType::kF32);
      EXPECT_EQ(internal::to_floats(StoredType::kF32, out[i].bytes),
                internal::to_floats(in[i].form.dtype, in[i].bytes))
          << in[i].form.name;
    }
  }
}

TEST(HuggingFace, AnExportedConfigIsReadAsTheSameModel) {
  const ScratchFolder scratch;
  for (const std::string& name : golden_cases()) {
    const ModelSpec in = model_of(golden_folder(name));
    const ModelSpec out = model_of(there_and_back(scratch, name, Bytes(1 << 30)));
    EXPECT_EQ(write_json(hugging_face_config(in)), write_json(hugging_face_config(out))) << name;
  }
}

TEST(HuggingFace, ShardsKeepToTheirSizeAndReadLikeOneFile) {
  const ScratchFolder scratch;
  const Bytes most(9000);
  const std::string whole = golden_folder("gpt2_untied");
  const std::string split = there_and_back(scratch, "gpt2_untied", most);
  EXPECT_FALSE(path_exists(split + "/model.safetensors"));
  const ModelSpec model = model_of(split);
  const auto a = HuggingFaceFolder::open(whole, model);
  const auto b = HuggingFaceFolder::open(split, model);
  ASSERT_TRUE(a.has_value()) << a.error().to_text();
  ASSERT_TRUE(b.has_value()) << b.error().to_text();
  for (const ParameterShape& parameter : parameter_shapes(model)) {
    EXPECT_EQ(a->read(parameter).value(), b->read(parameter).value()) << parameter.name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(split)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsFile::open(entry.path().string());
    Bytes bytes;
    for (const SafetensorsTensor& tensor : file->header().tensors) bytes += tensor.bytes();
    EXPECT_TRUE(bytes <= most || file->header().tensors.size() == 1) << entry.path();
  }
}

TEST(HuggingFace, ListsEveryTensorThatIsMissingUnknownOrOfAnotherShape) {
  const std::string error = open_changed([](std::vector<FileTensor>& tensors) {
    for (FileTensor& tensor : tensors) {
      if (tensor.form.name == "transformer.h.0.ln_1.bias") tensor.form.name = "transformer.x";
      if (tensor.form.name == "lm_head.weight") tensor.form.name = "y";
      if (tensor.form.name == "transformer.h.1.mlp.c_fc.weight") tensor.form.shape = {24, 16};
    }
  });
  EXPECT_THAT(error, AllOf(HasSubstr("it lacks transformer.h.0.ln_1.bias, lm_head.weight"),
                           HasSubstr("it also has transformer.x, y"),
                           HasSubstr("c_fc.weight is F32 [24, 16] instead of [16, 24]")));
}

TEST(HuggingFace, NamesWithoutThePrefixAndBuffersAreTaken) {
  const auto change = [](std::vector<FileTensor>& tensors) {
    for (FileTensor& tensor : tensors) {
      if (tensor.form.name.starts_with("transformer.")) tensor.form.name.erase(0, 12);
    }
    tensors.push_back(
        {{"h.0.attn.bias", StoredType::kBool, {1, 1, 2, 2}, {}}, std::vector<std::byte>(4)});
    tensors.push_back(
        {{"h.0.attn.masked_bias", StoredType::kF16, {}, {}}, std::vector<std::byte>(2)});
  };
  EXPECT_EQ(open_changed(change), "opened");
}

TEST(HuggingFace, ATiedHeadMayStandInTheFileButAsTheSameMatrix) {
  const auto with_head = [](bool same) {
    return [same](std::vector<FileTensor>& tensors) {
      FileTensor head;
      for (const FileTensor& tensor : tensors) {
        if (tensor.form.name == "transformer.wte.weight") head = tensor;
      }
      head.form.name = "lm_head.weight";
      if (!same) head.bytes[5] ^= std::byte{1};
      tensors.push_back(head);
    };
  };
  EXPECT_EQ(open_changed(with_head(true), "gpt2_tied"), "opened");
  EXPECT_THAT(open_changed(with_head(false), "gpt2_tied"), HasSubstr("another matrix"));
}

TEST(HuggingFace, RefusesIntegersAsParameters) {
  const auto change = [](std::vector<FileTensor>& tensors) {
    tensors[3].form.dtype = StoredType::kI32;
  };
  EXPECT_THAT(open_changed(change), HasSubstr("is I32"));
}

TEST(HuggingFace, AnIndexMustAgreeWithItsFiles) {
  const ScratchFolder scratch;
  const std::string source = golden_folder("gpt2_bf16_shards");
  std::filesystem::copy(source, scratch.path("x"));
  const std::string index = scratch.path("x/model.safetensors.index.json");
  const Json whole = read_json_file(index).value();
  const auto open_with = [&](const std::string& name, const Json& file) {
    Json json = whole;
    json.at_or_insert("weight_map").set(name, file);
    std::ofstream(index) << write_json(json);
    const auto folder = HuggingFaceFolder::open(scratch.path("x"), model_of(source));
    return folder ? "opened" : folder.error().to_text();
  };
  const Json first = "model-00001-of-00002.safetensors";
  const Json second = "model-00002-of-00002.safetensors";
  EXPECT_EQ(open_with("transformer.wte.weight",
                      *whole.find("weight_map")->find("transformer.wte.weight")),
            "opened");
  EXPECT_THAT(open_with("z", first), HasSubstr("tensor \"z\" is not in"));
  EXPECT_THAT(open_with("z", "../secret"), HasSubstr("no file's name"));
  EXPECT_THAT(open_with("z", "gone.safetensors"), HasSubstr("gone.safetensors"));
}

TEST(HuggingFace, AnExportTakesNoFolderThatHoldsSomething) {
  const ScratchFolder scratch;
  const auto imported = import_hugging_face(golden_folder("gpt2_tied"), scratch.path("in"));
  const auto checkpoint = Checkpoint::open(imported.value());
  std::filesystem::create_directories(scratch.path("out"));
  EXPECT_TRUE(export_hugging_face(*checkpoint, {scratch.path("out/")}).has_value());
  const auto again = export_hugging_face(*checkpoint, {scratch.path("out")});
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, Code::kInvalid);
  EXPECT_EQ(list_folder(scratch.path("")).value().size(), 2U) << "nothing is left beside it";
  const auto twice = import_hugging_face(golden_folder("gpt2_tied"), scratch.path("in"));
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().message, HasSubstr("exists already"));
}

TEST(HuggingFace, SixteenBitsBecomeTheFloatsTheyStandFor) {
  const auto half = [](std::uint16_t bits) {
    return internal::to_floats(StoredType::kF16, std::as_bytes(std::span(&bits, 1)))[0];
  };
  EXPECT_EQ(half(0x3C00), 1.0F);
  EXPECT_EQ(half(0xC580), -5.5F);
  EXPECT_EQ(half(0x7BFF), 65504.0F);
  EXPECT_EQ(half(0x0400), std::ldexp(1.0F, -14)) << "the smallest normal one";
  EXPECT_EQ(half(0x0001), std::ldexp(1.0F, -24)) << "the smallest subnormal one";
  EXPECT_EQ(half(0xFC00), -INFINITY);
  EXPECT_TRUE(std::isnan(half(0x7E00)));
  const std::uint16_t brain = 0xC049;
  EXPECT_EQ(internal::to_floats(StoredType::kBF16, std::as_bytes(std::span(&brain, 1)))[0],
            -3.140625F);
}

}  // namespace
}  // namespace quadrille
