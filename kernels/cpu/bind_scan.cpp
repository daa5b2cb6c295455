#include "bindings.h"

namespace tessera {

void bind_scan(nanobind::module_&) {}

}  // namespace tessera
