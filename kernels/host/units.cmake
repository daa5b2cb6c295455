set(cuda_units rows experts recurrent flags)
foreach(type f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k
             iq4_nl iq4_xs mxfp4 iq3_s iq3_xxs iq2_s iq2_xs iq2_xxs iq1_s iq1_m tq1_0 tq2_0)
  list(APPEND cuda_units matvec:${type} matmul:${type})
endforeach()
foreach(type f32 f16 q8_0)
  list(APPEND cuda_units attention:${type} prefill:${type})
endforeach()

set(cuda_objects "")
foreach(unit ${cuda_units})
  string(REPLACE ":" ";" parts ${unit})
  list(GET parts 0 file)
  string(REPLACE ":" "_" name ${unit})
  add_library(cuda_${name} OBJECT cuda/${file}.cu)
  set_source_files_properties(cuda/${file}.cu PROPERTIES LANGUAGE CXX)
  target_include_directories(cuda_${name} PRIVATE cuda host)
  target_compile_definitions(cuda_${name} PRIVATE TESSERA_UNIT=${name})
  if(NOT unit STREQUAL file)
    list(GET parts 1 type)
    target_compile_definitions(cuda_${name} PRIVATE TYPE=${type})
  endif()
  # -O1: three times faster to build than -O3, and the fibers' switches take the time.
  target_compile_options(cuda_${name} PRIVATE -x c++ -O1 -fno-strict-aliasing -fvisibility=hidden
                         -Wall -Wextra -Wno-unknown-pragmas)
  if(TESSERA_SANITIZE MATCHES "address")
    target_compile_options(cuda_${name} PRIVATE -fsanitize-sections=shared_*)
  endif()
  list(APPEND cuda_objects $<TARGET_OBJECTS:cuda_${name}>)
endforeach()

Python_add_library(_cuda_host MODULE WITH_SOABI host/fibers.cpp host/collectives.cpp host/stand_in_driver.cpp host/stand_in_memory.cpp
                   ${cuda_objects})
target_compile_options(_cuda_host PRIVATE -Wall -Wextra -O2 -fvisibility=hidden)
target_link_libraries(_cuda_host PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
if(TESSERA_SANITIZE MATCHES "address")
  set_source_files_properties(host/fibers.cpp host/collectives.cpp PROPERTIES COMPILE_DEFINITIONS TESSERA_ASAN
                              COMPILE_OPTIONS -fno-sanitize=all)
elseif(TESSERA_SANITIZE MATCHES "thread")
  set_source_files_properties(host/fibers.cpp host/collectives.cpp PROPERTIES COMPILE_DEFINITIONS TESSERA_TSAN
                              COMPILE_OPTIONS -fno-sanitize=all)
endif()
install(TARGETS _cuda_host LIBRARY DESTINATION kernels)
