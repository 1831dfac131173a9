/* A growing buffer, for streams whose size is known only when they are written. */
#ifndef COMPACTION_OUTPUT_H
#define COMPACTION_OUTPUT_H

#include <stdlib.h>

#include "kernels.h"

/* Make room for so many more bytes; return false without memory. */
static inline bool reserve(Output *output, int64_t more)
{
    uint8_t *data;
    int64_t room;
    if (more <= output->room - output->size)
        return true;
    room = 2 * output->room + more;
    if (!(data = realloc(output->data, (size_t)room)))
        return false;
    output->data = data;
    output->room = room;
    return true;
}

/* Add a byte that there is room for. */
static inline void put(Output *output, uint64_t byte)
{
    output->data[output->size++] = (uint8_t)byte;
}

/* Add the lowest bytes of a number, highest first. */
static inline void put_number(Output *output, uint64_t number, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        put(output, number >> shift);
}

#endif
