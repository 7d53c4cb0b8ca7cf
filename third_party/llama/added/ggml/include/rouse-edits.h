// What rouse's edits add to llama.cpp's library (third_party/llama of rouse). Its presence among the
// installed headers tells that the library has them. Plain C, so that any part may include it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// While on, GGUF headers that this thread reads are read without the arrays of the vocabulary
// (tokens, scores, types, merges): they are stepped over, as if the file had none. For loading
// weights whose vocabulary is loaded apart.
void rouse_skip_vocabulary(bool skip);

// Buffers of the CPU that this thread allocates from now on carry this mark; 0 = none.
void rouse_mark_buffers(uint64_t mark);

// Gives the memory of all buffers with this mark back to the kernel. They stay valid and read as
// zeros. Returns their bytes. Nobody may be using them meanwhile.
size_t rouse_drop_buffers(uint64_t mark);

#ifdef __cplusplus
}
#endif
