#include "bindings.h"

namespace tessera {

void bind_program(nanobind::module_&) {}

}  // namespace tessera
