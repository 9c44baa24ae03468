#pragma once

/// Everything of Tilemesh that a program needs; see docs and usage in README.md.

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"
#include "tilemesh/compiler/compile.hpp"
#include "tilemesh/compiler/program_builder.hpp"
#include "tilemesh/device/backend.hpp"
#include "tilemesh/memory/allocator_adaptors.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/mesh/mesh_buffer.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/mesh/mesh_trace.hpp"
#include "tilemesh/mesh/mesh_workload.hpp"
#include "tilemesh/program/binary.hpp"
#include "tilemesh/runtime/executable.hpp"
#include "tilemesh/runtime/memory_plan.hpp"
#include "tilemesh/runtime/model.hpp"
#include "tilemesh/runtime/profile.hpp"
#include "tilemesh/runtime/submit.hpp"
#include "tilemesh/tensor/tensor.hpp"
#include "tilemesh/tensor/transfer.hpp"
#include "tilemesh/types/mesh_range.hpp"
