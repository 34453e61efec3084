// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
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
