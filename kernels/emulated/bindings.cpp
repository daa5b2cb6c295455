// The module kernels._cpu_emulated: programs and products with AVX-512 computed in software, for tests on other
// machines.
#include "../cpu/bindings.h"

NB_MODULE(_cpu_emulated, m) {
  m.doc() = "CPU kernels with emulated AVX-512";
  tessera::bind_matmul(m);
  tessera::bind_program(m);
}
