/* Writes runs of bytes (ORC specification, "Byte Run Length Encoding"). Reference: _byte_runs in encoding/rle_encode.py. */
#include "output.h"

enum { SHORTEST_REPEAT = 3, LONGEST_REPEAT = 130, LONGEST_LITERALS = 128 };

static int64_t end_of_repeat(const uint8_t *values, int64_t start, int64_t end)
{
    int64_t place = start + 1;
    while (place < end && values[place] == values[start])
        place++;
    return place;
}

static Problem put_literals(const uint8_t *values, int64_t start, int64_t end, Output *output)
{
    while (start < end) {
        int64_t length = end - start < LONGEST_LITERALS ? end - start : LONGEST_LITERALS;
        if (!reserve(output, 1 + length))
            return NO_MEMORY;
        put(output, (uint64_t)(256 - length));
        memcpy(output->data + output->size, values + start, (size_t)length);
        output->size += length;
        start += length;
    }
    return SOUND;
}

/* A repeat is cut into the longest ones; the rest is literals of its own if it is too short. */
static Problem put_repeat(const uint8_t *values, int64_t start, int64_t end, Output *output)
{
    while (end - start >= SHORTEST_REPEAT) {
        int64_t length = end - start < LONGEST_REPEAT ? end - start : LONGEST_REPEAT;
        if (!reserve(output, 2))
            return NO_MEMORY;
        put(output, (uint64_t)(length - SHORTEST_REPEAT));
        put(output, values[start]);
        start += length;
    }
    return put_literals(values, start, end, output);
}

static Problem encode_group(const uint8_t *values, int64_t start, int64_t end, Output *output)
{
    int64_t literals = start;
    Problem problem = SOUND;
    while (start < end && !problem) {
        int64_t next = end_of_repeat(values, start, end);
        if (next - start >= SHORTEST_REPEAT) {
            if ((problem = put_literals(values, literals, start, output)))
                return problem;
            problem = put_repeat(values, start, next, output);
            literals = next;
        }
        start = next;
    }
    return problem ? problem : put_literals(values, literals, end, output);
}

Problem encode_bytes(const uint8_t *values, Numbers groups, Output *output, int64_t *starts)
{
    for (int64_t group = 0; group + 1 < groups.count; group++) {
        Problem problem;
        starts[group] = output->size;
        problem = encode_group(values, number_at(groups, group), number_at(groups, group + 1), output);
        if (problem)
            return problem;
    }
    return SOUND;
}
