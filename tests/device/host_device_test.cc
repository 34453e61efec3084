// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "quadrille/device/device.h"

namespace quadrille {
namespace {

TEST(HostDevice, GivesZeroedMemoryAlignedToACacheLine) {
  const auto device = make_host_device();
  // Around the limit of 2 MiB, from where on memory is mapped in huge pages.
  for (const std::int64_t count :
       {0, 1, 63, 64, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20}) {
    const auto memory = device->allocate(Bytes(count));
    ASSERT_TRUE(memory.has_value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*memory) % 64, 0u) << count;
    auto* bytes = static_cast<unsigned char*>(*memory);
    EXPECT_TRUE(std::all_of(bytes, bytes + count, [](unsigned char b) { return b == 0; })) << count;
    std::memset(bytes, 0xAB, static_cast<std::size_t>(count));
    device->release(*memory, Bytes(count));
  }
}

TEST(HostDevice, RefusesMoreThanThereIsAddressSpace) {
  const auto memory = make_host_device()->allocate(Bytes(std::int64_t{1} << 60));
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, Code::kExhausted);
}

TEST(HostDevice, CopiesThereAndBackAndRunsOperationsInOrder) {
  const auto device = make_host_device();
  const auto memory = device->allocate(Bytes(12));
  ASSERT_TRUE(memory.has_value());
  const TensorView view(device.get(), *memory, DType::kF32, {3});
  const auto stream = device->make_stream();
  write_all<float>(*stream, view, std::vector<float>{1, 2, 3});
  const Operand operand{view, Access::kReadWrite};
  stream->launch("double", {&operand, 1}, [view] {
    for (int i = 0; i < 3; ++i) view.host<float>()[i] *= 2;
  });
  stream->wait(*stream->record());
  EXPECT_EQ(read_all<float>(*stream, view).value(), (std::vector<float>{2, 4, 6}));
  device->release(*memory, Bytes(12));
}

struct Witness final : OperationObserver {
  void ran(const OperationSpan& span) override { spans.push_back(span); }
  std::vector<OperationSpan> spans;
};

TEST(HostDevice, TellsAnObserverWhatRanWhenAndWhatItMoved) {
  const auto device = make_host_device();
  const auto memory = device->allocate(Bytes(64));
  const TensorView view(device.get(), *memory, DType::kF32, {16});
  Witness witness;
  const auto stream = device->make_stream();
  stream->launch("unseen", {}, [] {});
  stream->observe(&witness);
  write_all<float>(*stream, view, std::vector<float>(16, 1.0F));
  Operation halve("halve", 16.0);
  halve.extents = {16};
  Seconds inside;
  const Operand operand{view, Access::kReadWrite};
  stream->launch(halve, {&operand, 1}, [&inside] { inside = monotonic_now(); });
  halve.bytes = 5;
  stream->launch(halve, {&operand, 1}, [] {});
  stream->observe(nullptr);
  stream->launch("unseen", {}, [] {});

  ASSERT_EQ(witness.spans.size(), 3u);
  EXPECT_EQ(witness.spans[0].operation.name, "upload");
  EXPECT_EQ(witness.spans[0].moved, Bytes(64));
  EXPECT_EQ(witness.spans[1].operation.name, "halve");
  EXPECT_EQ(witness.spans[1].operation.flops, 16.0);
  EXPECT_EQ(witness.spans[1].operation.extents[0], 16);
  EXPECT_EQ(witness.spans[1].moved, Bytes(2 * 64)) << "read and written";
  EXPECT_LE(witness.spans[1].begin, inside);
  EXPECT_GE(witness.spans[1].end, inside);
  EXPECT_EQ(witness.spans[2].moved, Bytes(5)) << "what the operation says of itself goes first";
  device->release(*memory, Bytes(64));
}

TEST(HostDevice, CountsAViewThatIsNamedTwiceOnce) {
  const auto device = make_host_device();
  std::array<float, 8> values{};
  const TensorView view(device.get(), values.data(), DType::kF32, {8});
  const std::array operands{Operand{view, Access::kRead}, Operand{view, Access::kRead},
                            Operand{view.flat(0, 2), Access::kRead},
                            Operand{view.flat(4, 4), Access::kWrite},
                            Operand{TensorView(), Access::kWrite}};
  EXPECT_EQ(bytes_moved(operands), Bytes((8 + 2 + 4) * 4));
}

TEST(HostDevice, RefusesOperandsOfAnotherDevice) {
  const auto mine = make_host_device();
  const auto other = make_host_device();
  float value = 0;
  const Operand foreign{TensorView(other.get(), &value, DType::kF32, {1}), Access::kRead};
  const auto stream = mine->make_stream();
  EXPECT_DEATH(stream->launch("add", {&foreign, 1}, [] {}), "add on an operand of another device");
}

TEST(HostDevice, RefusesCopiesOfAnotherLength) {
  const auto device = make_host_device();
  float values[3] = {};
  const TensorView view(device.get(), values, DType::kF32, {3});
  const auto stream = device->make_stream();
  const std::vector<std::byte> source(11);
  EXPECT_DEATH(stream->upload(source, view), "source.size");
}

}  // namespace
}  // namespace quadrille
