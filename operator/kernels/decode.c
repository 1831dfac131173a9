/* Reads runs of integers and bytes. References: encoding/rle.py, rle_version1.py, rle_version2.py,
 * integer_runs.py. */
#include "kernels.h"

enum { LONGEST_VARINT = 10, MOST_PATCHES = 31 };

/* The byte at a position, 0 behind the stream: a cut run is read to its end and refused by its position. */
static inline uint8_t byte_at(Stream stream, int64_t position)
{
    return position < stream.size ? stream.data[position] : 0;
}

/* The eight bytes at a position, highest first, with zeros behind the stream. */
static inline uint64_t word_at(Stream stream, int64_t position)
{
    uint64_t word = 0;
    if (position + 8 <= stream.size) {
        memcpy(&word, stream.data + position, 8);
        return __builtin_bswap64(word);
    }
    for (int place = 0; place < 8; place++)
        word = word << 8 | byte_at(stream, position + place);
    return word;
}

/* The packed number that begins at a bit behind a position. NB: no width lies between 56 and 64, and those of 64 bits
 * begin with a byte, so eight bytes hold any of them. */
static inline uint64_t packed_at(Stream stream, int64_t position, int64_t bit, int width)
{
    return highest(word_at(stream, position + (bit >> 3)) << (bit & 7), width);
}

/* Read a base-128 number, cut to 64 bits, and move the position behind it. */
static Problem read_varint(Stream stream, int64_t *position, uint64_t *value)
{
    *value = 0;
    for (int place = 0; place < LONGEST_VARINT; place++) {
        uint8_t byte = byte_at(stream, (*position)++);
        *value |= (uint64_t)(byte & 0x7F) << 7 * place;
        if (byte < 128)
            return SOUND;
    }
    return NUMBER_TOO_LONG;
}

static Problem check_end(Stream stream, int64_t position, int64_t count, int64_t total)
{
    if (position > stream.size || total < count)
        return TRUNCATED;
    return position < stream.size || total > count ? TOO_MANY_VALUES : SOUND;
}

static void write_linear(uint64_t first, uint64_t step, int64_t length, uint64_t *values)
{
    for (int64_t place = 0; place < length; place++)
        values[place] = first + step * (uint64_t)place;
}

/* Version 2 */

typedef enum { LINEAR, DIRECT, DELTA, PATCHED } Kind;

/* What the head of a run says; `packed` is the position of its packed values, `end` that behind the run. */
typedef struct {
    Kind kind;
    int width;
    int64_t length, packed, end;
    uint64_t first, step; /* the base, if patched */
    int64_t patches;
    int number_of_patches, patch_width, entry_width;
} Run;

static inline int64_t bytes_of(int64_t numbers, int width)
{
    return (numbers * width + 7) / 8;
}

static void read_short_repeat(Stream stream, int64_t position, bool is_signed, Run *run)
{
    int header = stream.data[position], size = (header >> 3) + 1;
    uint64_t code = highest(word_at(stream, position + 1), 8 * size);
    run->kind = LINEAR;
    run->length = (header & 7) + 3;
    run->end = position + 1 + size;
    run->first = is_signed ? unzigzag(code) : code;
    run->step = 0;
}

static Problem read_delta(Stream stream, int64_t position, bool is_signed, Run *run)
{
    uint64_t first, step;
    Problem problem;
    run->packed = position + 2;
    if ((problem = read_varint(stream, &run->packed, &first)) || (problem = read_varint(stream, &run->packed, &step)))
        return problem;
    run->first = is_signed ? unzigzag(first) : first;
    run->step = unzigzag(step);
    run->kind = stream.data[position] & 0x3E ? DELTA : LINEAR; /* without a width all deltas are equal */
    if (run->kind == DELTA && run->length < 2)
        return DELTA_WITHOUT_DELTA;
    run->end = run->packed + (run->kind == DELTA ? bytes_of(run->length - 2, run->width) : 0);
    return SOUND;
}

/* Move behind one patch: return its bits, and add its gap to the place in the run. */
static uint64_t next_patch(Stream stream, const Run *run, int number, int64_t *place)
{
    uint64_t entry = packed_at(stream, run->patches, (int64_t)number * run->entry_width, run->entry_width);
    *place += (int64_t)(entry >> run->patch_width);
    return entry & (((uint64_t)1 << run->patch_width) - 1);
}

static Problem check_patches(Stream stream, const Run *run)
{
    int64_t place = 0;
    if (run->end > stream.size)
        return TRUNCATED;
    for (int number = 0; number < run->number_of_patches; number++) {
        next_patch(stream, run, number, &place);
        if (place >= run->length)
            return PATCH_BEYOND_RUN;
    }
    return SOUND;
}

static Problem read_patched(Stream stream, int64_t position, Run *run)
{
    int third = byte_at(stream, position + 2), fourth = byte_at(stream, position + 3), size = (third >> 5) + 1;
    uint64_t base = highest(word_at(stream, position + 4), 8 * size), sign = (uint64_t)1 << (8 * size - 1);
    run->kind = PATCHED;
    run->first = base & sign ? sign - base : base;
    run->packed = position + 4 + size;
    run->patches = run->packed + bytes_of(run->length, run->width);
    run->patch_width = width_of_code(third & 31);
    run->number_of_patches = fourth & MOST_PATCHES;
    run->entry_width = any_width(run->patch_width + (fourth >> 5) + 1);
    if (!run->entry_width)
        return PACKED_TOO_WIDE;
    run->end = run->patches + bytes_of(run->number_of_patches, run->entry_width);
    return check_patches(stream, run);
}

/* Read the head of the run at a position inside the stream, and its patches; the run may end behind the stream. */
static Problem read_run(Stream stream, int64_t position, bool is_signed, Run *run)
{
    int header = stream.data[position];
    if (header < 64) {
        read_short_repeat(stream, position, is_signed, run);
        return SOUND;
    }
    run->width = width_of_code(header >> 1 & 31);
    run->length = ((header & 1) << 8 | byte_at(stream, position + 1)) + 1;
    if (header >= 192)
        return read_delta(stream, position, is_signed, run);
    if (header >= 128)
        return read_patched(stream, position, run);
    run->kind = DIRECT;
    run->packed = position + 2;
    run->end = run->packed + bytes_of(run->length, run->width);
    return SOUND;
}

static void unpack(Stream stream, const Run *run, int64_t numbers, uint64_t *values)
{
    for (int64_t place = 0, bit = 0; place < numbers; place++, bit += run->width)
        values[place] = packed_at(stream, run->packed, bit, run->width);
}

static void write_direct(Stream stream, const Run *run, bool is_signed, uint64_t *values)
{
    unpack(stream, run, run->length, values);
    for (int64_t place = 0; is_signed && place < run->length; place++)
        values[place] = unzigzag(values[place]);
}

/* A run whose first delta is negative subtracts the others. */
static void write_delta(Stream stream, const Run *run, uint64_t *values)
{
    bool falls = (int64_t)run->step < 0;
    unpack(stream, run, run->length - 2, values + 2);
    values[0] = run->first;
    values[1] = run->first + run->step;
    for (int64_t place = 2; place < run->length; place++)
        values[place] = values[place - 1] + (falls ? 0 - values[place] : values[place]);
}

static void write_patched(Stream stream, const Run *run, uint64_t *values)
{
    int64_t at = 0;
    unpack(stream, run, run->length, values);
    for (int number = 0; number < run->number_of_patches; number++) {
        uint64_t bits = next_patch(stream, run, number, &at);
        values[at] |= run->width < 64 ? bits << run->width : 0;
    }
    for (int64_t place = 0; place < run->length; place++)
        values[place] += run->first;
}

static void write_run(Stream stream, const Run *run, bool is_signed, uint64_t *values)
{
    switch (run->kind) {
    case LINEAR:
        write_linear(run->first, run->step, run->length, values);
        break;
    case DIRECT:
        write_direct(stream, run, is_signed, values);
        break;
    case DELTA:
        write_delta(stream, run, values);
        break;
    case PATCHED:
        write_patched(stream, run, values);
    }
}

/* Walk the runs; write their values unless there is no memory for them yet. */
static Problem walk_version2(Stream stream, int64_t count, bool is_signed, uint64_t *values)
{
    int64_t position = 0, total = 0;
    Run run = {0};
    while (position < stream.size && total < count) {
        Problem problem = read_run(stream, position, is_signed, &run);
        if (problem)
            return problem;
        if (values)
            write_run(stream, &run, is_signed, values + total);
        position = run.end;
        total += run.length;
    }
    return check_end(stream, position, count, total);
}

enum { STEADY_VARINT = 9 }; /* bytes of numbers that fit into 64 bits for certain */

/* Read a base-128 number of a run of one step; return false if it is longer. */
static bool read_steady_number(Stream stream, int64_t *position, int64_t *value)
{
    int64_t start = *position;
    uint64_t code;
    if (read_varint(stream, position, &code) || *position - start > STEADY_VARINT || *position > stream.size)
        return false;
    *value = (int64_t)unzigzag(code);
    return true;
}

/* Read a delta run without packed steps; return false, and leave the position, if there is none. */
static bool read_steady(Stream stream, int64_t *position, SteadyRun *run)
{
    int64_t end = *position + 2;
    if (end > stream.size || stream.data[*position] >> 1 != 0x60)
        return false;
    run->length = ((stream.data[*position] & 1) << 8 | stream.data[*position + 1]) + 1;
    if (!read_steady_number(stream, &end, &run->first) || !read_steady_number(stream, &end, &run->step))
        return false;
    *position = end;
    return true;
}

int64_t read_steady_runs(Stream stream, int64_t *position, int64_t most, SteadyRun *runs)
{
    SteadyRun run;
    int64_t count = 0;
    for (; count < most && read_steady(stream, position, &run); count++)
        if (runs)
            runs[count] = run;
    return count;
}

/* Version 1 */

/* Move behind so many base-128 numbers of any length. */
static Problem skip_varints(Stream stream, int64_t *position, int64_t numbers)
{
    while (numbers) {
        if (*position >= stream.size)
            return TRUNCATED;
        numbers -= stream.data[(*position)++] < 128;
    }
    return SOUND;
}

static Problem write_literals(Stream stream, int64_t *position, int64_t numbers, bool is_signed, uint64_t *values)
{
    for (int64_t place = 0; place < numbers; place++) {
        uint64_t code;
        Problem problem = read_varint(stream, position, &code);
        if (problem)
            return problem;
        values[place] = is_signed ? unzigzag(code) : code;
    }
    return SOUND;
}

static Problem walk_version1_run(Stream stream, int64_t *position, int64_t length, bool is_signed, uint64_t *values)
{
    uint64_t first, step = (uint64_t)(int64_t)(int8_t)byte_at(stream, *position);
    Problem problem;
    *position += 1;
    problem = read_varint(stream, position, &first);
    if (!problem && values)
        write_linear(is_signed ? unzigzag(first) : first, step, length, values);
    return problem;
}

static Problem walk_version1(Stream stream, int64_t count, bool is_signed, uint64_t *values)
{
    int64_t position = 0, total = 0;
    while (position < stream.size && total < count) {
        int control = stream.data[position++];
        int64_t length = control < 128 ? control + 3 : 256 - control;
        uint64_t *here = values ? values + total : NULL;
        Problem problem;
        if (control < 128)
            problem = walk_version1_run(stream, &position, length, is_signed, here);
        else if (here)
            problem = write_literals(stream, &position, length, is_signed, here);
        else
            problem = skip_varints(stream, &position, length);
        if (problem)
            return problem;
        total += length;
    }
    return check_end(stream, position, count, total);
}

Problem check_integers(Stream stream, int64_t count, bool is_signed, int version)
{
    return (version == 1 ? walk_version1 : walk_version2)(stream, count, is_signed, NULL);
}

Problem write_integers(Stream stream, int64_t count, bool is_signed, int version, uint64_t *values)
{
    return (version == 1 ? walk_version1 : walk_version2)(stream, count, is_signed, values);
}

/* Bytes */

static Problem walk_bytes(Stream stream, int64_t count, uint8_t *values)
{
    int64_t position = 0, total = 0;
    while (position < stream.size && total < count) {
        int control = stream.data[position++];
        int64_t length = control < 128 ? control + 3 : 256 - control;
        if (values && control < 128)
            memset(values + total, stream.data[position], (size_t)length);
        else if (values)
            memcpy(values + total, stream.data + position, (size_t)length);
        position += control < 128 ? 1 : length;
        total += length;
    }
    return check_end(stream, position, count, total);
}

Problem check_bytes(Stream stream, int64_t count)
{
    return walk_bytes(stream, count, NULL);
}

void write_bytes(Stream stream, int64_t count, uint8_t *values)
{
    walk_bytes(stream, count, values);
}

int64_t count_varints(Stream stream)
{
    int64_t numbers = 0;
    for (int64_t position = 0; position < stream.size; position++)
        numbers += stream.data[position] < 128;
    return numbers;
}

void write_varint_lengths(Stream stream, int64_t *lengths)
{
    int64_t start = 0;
    for (int64_t position = 0; position < stream.size; position++)
        if (stream.data[position] < 128) {
            *lengths++ = position + 1 - start;
            start = position + 1;
        }
}
