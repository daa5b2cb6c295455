// Private to the x86 tiers: the rows of the table, each a way for few tokens and a way for many.
#pragma once
#include "matmul_panels.h"

namespace tessera {
namespace {

template <class Kernel, class Rows, class Record>
void multiply_type(const MatmulTask& task) {
  switch (task.tokens) {
    case 1:
      return Rows::template multiply<1>(task);
    case 2:
      return Rows::template multiply<2>(task);
    case 3:
      return Rows::template multiply<3>(task);
    default:
      return multiply_panels<Kernel>(task, Record::stride(task.cols));
  }
}
static_assert(kRowTokens == 3);

template <class Kernel, class Rows, class Record>
void fill_row(MatmulTable& table, QuantType type, const char* tier) {
  MatmulKernels& row = table.types[static_cast<int>(type)];
  row.tier = tier;
  row.row_step = kPanelRows;
  row.scratch_bytes = panel_scratch_bytes<Kernel>;
  row.multiply = multiply_type<Kernel, Rows, Record>;
}

}  // namespace
}  // namespace tessera
