/* The compiled kernels: run lengths, packed bits and statistics of ORC streams, without Python.
 *
 * Each does what a function in Python does (compaction_operator/orc), which stays as its reference: the same bytes for
 * the same values, and the same refusal of a damaged stream. Streams come from files that may be damaged, so a kernel
 * reads a byte only after a comparison with the stream's size, and writes into memory that it counted before.
 */
#ifndef COMPACTION_KERNELS_H
#define COMPACTION_KERNELS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernels are written for machines that have a number's lowest byte first"
#endif

/* What is wrong with a stream; module.c has the words. */
typedef enum {
    SOUND = 0,
    TRUNCATED,
    TOO_MANY_VALUES,
    NUMBER_TOO_LONG,
    PACKED_TOO_WIDE,
    DELTA_WITHOUT_DELTA,
    PATCH_BEYOND_RUN,
    NO_MEMORY,
} Problem;

/* A stream to read. */
typedef struct {
    const uint8_t *data;
    int64_t size;
} Stream;

/* Numbers of 64 bits in a buffer that may begin at any address. */
typedef struct {
    const uint8_t *data;
    int64_t count;
} Numbers;

/* A stream under construction; `reserve` makes room before each write. */
typedef struct {
    uint8_t *data;
    int64_t size;
    int64_t room;
} Output;

static inline int64_t number_at(Numbers numbers, int64_t index)
{
    int64_t number;
    memcpy(&number, numbers.data + 8 * index, sizeof number);
    return number;
}

/* Return the highest `width` bits, 1 to 64, of a word, as a number. */
static inline uint64_t highest(uint64_t word, int width)
{
    return word >> (64 - width);
}

static inline uint64_t unzigzag(uint64_t code)
{
    return (code >> 1) ^ (0 - (code & 1));
}

static inline uint64_t zigzag(uint64_t value)
{
    return (value << 1) ^ (0 - (value >> 63));
}

/* Return how many bits a number has, 0 for 0. */
static inline int bit_length(uint64_t number)
{
    return number ? 64 - __builtin_clzll(number) : 0;
}

/* widths.c */

/* Return the width of a run's five-bit code. */
int width_of_code(int code);

/* Return the code of a width of the specification. */
int code_of_width(int width);

/* Return the narrowest width of the specification that holds so many bits, or 0 if none does. */
int any_width(int bits);

/* decode.c: `check` counts the values of a stream before there is memory for them, `write` puts them there. */

Problem check_integers(Stream stream, int64_t count, bool is_signed, int version);
Problem write_integers(Stream stream, int64_t count, bool is_signed, int version, uint64_t *values);
Problem check_bytes(Stream stream, int64_t count);
void write_bytes(Stream stream, int64_t count, uint8_t *values);

/* A run of one step. */
typedef struct {
    int64_t first, step, length;
} SteadyRun;

/* Count the delta runs without packed steps from a position on, at most so many, and move the position behind them.
 * Write them if there is memory for them. */
int64_t read_steady_runs(Stream stream, int64_t *position, int64_t most, SteadyRun *runs);

/* Return the number of base-128 numbers in a stream, without a last one that is cut off. */
int64_t count_varints(Stream stream);

/* Write the length in bytes of each of the counted numbers. */
void write_varint_lengths(Stream stream, int64_t *lengths);

/* encode.c: `groups` are ascending offsets from 0 to the number of values; `starts` gets each group's place. */

Problem encode_integers(Numbers values, Numbers groups, bool is_signed, Output *output, int64_t *starts);
Problem encode_bytes(const uint8_t *values, Numbers groups, Output *output, int64_t *starts);

/* statistics.c */

typedef struct {
    int64_t least, greatest, sum;
    bool overflows; /* at any point, if added in order */
} IntegerStatistics;

/* Without values all numbers are 0. */
IntegerStatistics integer_statistics(Numbers values);

enum { DECIMAL_SCALES = 39 };

/* Unscaled decimals of one scale. NB: fewer than 2**63 numbers of 64 bits have a sum of at most 127 bits. */
typedef struct {
    int64_t count, least, greatest;
    __int128 sum;
} DecimalStatistics;

/* Add the zigzag base-128 numbers between the offsets to the statistics of their scales. Return false, and leave them
 * unfinished, for a number of more than 64 bits, for another scale, and for offsets outside of the data. */
bool decimal_statistics(Stream data, Numbers offsets, Numbers scales, DecimalStatistics *by_scale);

/* Find the places of the least and the greatest string in the order of bytes, of equal ones the first; 0 without any.
 * Return false for offsets outside of the data. */
bool string_bounds(Stream data, Numbers offsets, int64_t *least, int64_t *greatest);

/* Find the least of the timestamps in milliseconds, and the greatest, rounded up; 0 without any. Return false for one
 * that Java cannot represent. */
bool timestamp_bounds(Numbers seconds, Numbers nanos, int64_t *least, int64_t *greatest);

/* keys.c */

enum { ROW_COLUMNS = 3 };

/* ROW__IDs: the columns write id, bucket and row id, of one length. */
typedef struct {
    Numbers columns[ROW_COLUMNS];
} Rows;

/* Return the place of the first event that does not come after its predecessor, or -1: of events of one row the newest
 * comes first. */
int64_t first_not_ascending(Rows rows, Numbers current);

/* Mark with 1 each row that is one of the deletes, which are sorted, and others with 0. Return false, and leave the
 * marks unfinished, for rows that are not sorted. */
bool find_hits(Rows rows, Rows deletes, uint8_t *hits);

/* bloom.c */

/* Write the hash of each string. Return false for offsets outside of the data. */
bool hash_strings(Stream data, Numbers offsets, uint64_t *hashes);

/* Set the bits of so many functions for each hash. */
void set_bits(Numbers hashes, int functions, uint8_t *bits, int64_t number_of_bits);

#endif
