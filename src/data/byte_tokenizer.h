// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Each byte is a token.

#include <memory>

#include "quadrille/data/tokenizer.h"

namespace quadrille::internal {

[[nodiscard]] std::unique_ptr<Tokenizer> make_byte_tokenizer();

}  // namespace quadrille::internal
