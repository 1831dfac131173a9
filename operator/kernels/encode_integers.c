/* Writes runs of integers, version 2. References: encoding/rle_encode.py, patched_base.py, bit_packing.py.
 *
 * Steps between values may wrap at 64 bits, so they are computed without a sign, as the reference's are by numpy.
 */
#include "output.h"

enum {
    LONGEST_BLOCK = 512,
    SHORTEST_SEQUENCE = 128,
    PROBE = 120, /* less than the steps of the shortest sequence: no sequence lies between two probes */
    SHORTEST_REPEAT = 3,
    LONGEST_SHORT_REPEAT = 10,
    FEW = 20,
    MOST_PATCHES = 31,
    LONGEST_GAP = 255,
    WIDEST_PATCH = 56,
    LARGEST_HEAD = 2 + 10 + 10, /* two bytes and two base-128 numbers */
    SURPLUS = 8,
};

#define TAME ((int64_t)1 << 62)
#define LARGEST_BASE ((uint64_t)1 << 55)

/* The widths that this writer uses, by their place in the list of them. */
static const uint8_t WRITTEN[] = {1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64};
enum { WRITTEN_WIDTHS = sizeof WRITTEN };

/* The place of the narrowest written width that holds a number. */
static int place_of_width(uint64_t largest)
{
    int place = 0, bits = bit_length(largest);
    while (WRITTEN[place] < bits)
        place++;
    return place;
}

static inline uint64_t step_at(Numbers values, int64_t place)
{
    return (uint64_t)number_at(values, place + 1) - (uint64_t)number_at(values, place);
}

/* One block of at most 512 values. */
typedef struct {
    int64_t length;
    uint64_t codes[LONGEST_BLOCK];  /* what a direct run holds */
    uint64_t values[LONGEST_BLOCK]; /* as they are */
    uint64_t any_code;              /* all codes' bits */
    int64_t low, high;              /* the least and greatest step; 0 for one value */
    uint64_t step;                  /* the first step */
} Block;

static void read_block(Numbers values, int64_t start, int64_t length, bool is_signed, Block *block)
{
    block->length = length;
    block->any_code = 0;
    for (int64_t place = 0; place < length; place++)
        block->values[place] = (uint64_t)number_at(values, start + place);
    for (int64_t place = 0; place < length; place++) {
        block->codes[place] = is_signed ? zigzag(block->values[place]) : block->values[place];
        block->any_code |= block->codes[place];
    }
    block->step = length > 1 ? block->values[1] - block->values[0] : 0;
    block->low = block->high = (int64_t)block->step;
    for (int64_t place = 2; place < length; place++) {
        int64_t step = (int64_t)(block->values[place] - block->values[place - 1]);
        block->low = step < block->low ? step : block->low;
        block->high = step > block->high ? step : block->high;
    }
}

/* Bits */

/* Add numbers of a width that is a whole number of bytes. NB: each is put down as eight bytes, which the next ones
 * overwrite: behind the last there must be room for SURPLUS bytes. */
static void put_whole(const uint64_t *numbers, int64_t count, int width, Output *output)
{
    for (int64_t place = 0; place < count; place++, output->size += width / 8) {
        uint64_t word = __builtin_bswap64(numbers[place] << (64 - width));
        memcpy(output->data + output->size, &word, 8);
    }
}

/* Add the lowest bits of each number, of any width up to 56, and fill up the last byte with zeros. */
static void put_bits(const uint64_t *numbers, int64_t count, int width, Output *output)
{
    uint64_t bits = 0, mask = ((uint64_t)1 << width) - 1;
    int held = 0;
    for (int64_t place = 0; place < count; place++) {
        bits = bits << width | (numbers[place] & mask);
        for (held += width; held >= 8; held -= 8)
            put(output, bits >> (held - 8));
    }
    if (held)
        put(output, bits << (8 - held));
}

static void pack(const uint64_t *numbers, int64_t count, int width, Output *output)
{
    (width % 8 ? put_bits : put_whole)(numbers, count, width, output);
}

static void put_varint(Output *output, uint64_t number)
{
    for (; number > 0x7F; number >>= 7)
        put(output, (number & 0x7F) | 0x80);
    put(output, number);
}

/* Runs */

static void put_head(Output *output, int kind, int width, int64_t length)
{
    int code = width ? code_of_width(width) : 0;
    put_number(output, (uint64_t)(kind << 14 | code << 9 | (int)(length - 1)), 2);
}

static void put_short_repeat(const Block *block, Output *output)
{
    int size = (bit_length(block->codes[0]) + 7) / 8;
    size = size ? size : 1;
    put(output, (uint64_t)(size - 1) << 3 | (uint64_t)(block->length - SHORTEST_REPEAT));
    put_number(output, block->codes[0], size);
}

static void put_delta(Block *block, int width, Output *output)
{
    put_head(output, 3, width, block->length);
    put_varint(output, block->codes[0]);
    put_varint(output, zigzag(block->step));
    for (int64_t place = block->length - 1; place >= 2; place--) {
        uint64_t step = block->values[place] - block->values[place - 1];
        block->codes[place] = (int64_t)step < 0 ? 0 - step : step;
    }
    if (width)
        pack(block->codes + 2, block->length - 2, width, output);
}

static void put_direct(const Block *block, int width, Output *output)
{
    put_head(output, 1, width, block->length);
    pack(block->codes, block->length, width, output);
}

/* Patched runs */

/* What a patched run needs: the values less the smallest one, and what of them is wider than `width`. */
typedef struct {
    int64_t base;
    uint64_t offsets[LONGEST_BLOCK];
    int width;
    int count;
    uint64_t gaps[MOST_PATCHES], bits[MOST_PATCHES];
} Patches;

/* The width that fits all offsets except the largest twentieth. */
static int width_of_most(const uint64_t *offsets, int64_t length)
{
    int64_t counts[WRITTEN_WIDTHS] = {0}, rest = length - length / FEW;
    int place = 0;
    for (int64_t number = 0; number < length; number++)
        counts[place_of_width(offsets[number])]++;
    while ((rest -= counts[place]) > 0)
        place++;
    return WRITTEN[place];
}

static bool add_patch(Patches *patches, uint64_t gap, uint64_t bits)
{
    if (patches->count == MOST_PATCHES)
        return false;
    patches->gaps[patches->count] = gap;
    patches->bits[patches->count++] = bits;
    return true;
}

/* Find the patches; a long gap gets steps without bits. Return false if there are none, or too many. */
static bool find_patches(const Block *block, Patches *patches)
{
    int64_t last = 0;
    patches->count = 0;
    for (int64_t place = 0; patches->width < 64 && place < block->length; place++) {
        if (!(patches->offsets[place] >> patches->width))
            continue;
        for (; place - last >= LONGEST_GAP; last += LONGEST_GAP)
            if (!add_patch(patches, LONGEST_GAP, 0))
                return false;
        if (!add_patch(patches, (uint64_t)(place - last), patches->offsets[place] >> patches->width))
            return false;
        last = place;
    }
    return patches->count > 0;
}

static bool prepare_patches(const Block *block, Patches *patches)
{
    patches->base = (int64_t)block->values[0];
    for (int64_t place = 1; place < block->length; place++)
        if ((int64_t)block->values[place] < patches->base)
            patches->base = (int64_t)block->values[place];
    for (int64_t place = 0; place < block->length; place++)
        patches->offsets[place] = block->values[place] - (uint64_t)patches->base;
    patches->width = width_of_most(patches->offsets, block->length);
    return find_patches(block, patches);
}

static void put_patched(const Block *block, Patches *patches, int gap_width, int patch_width, Output *output)
{
    uint64_t magnitude = patches->base < 0 ? 0 - (uint64_t)patches->base : (uint64_t)patches->base;
    int size = bit_length(magnitude) / 8 + 1;
    put_head(output, 2, patches->width, block->length);
    put(output, (uint64_t)(size - 1) << 5 | (uint64_t)code_of_width(patch_width));
    put(output, (uint64_t)(gap_width - 1) << 5 | (uint64_t)patches->count);
    put_number(output, magnitude | (uint64_t)(patches->base < 0) << (8 * size - 1), size);
    pack(patches->offsets, block->length, patches->width, output);
    for (int patch = 0; patch < patches->count; patch++)
        patches->bits[patch] |= patches->gaps[patch] << patch_width;
    put_bits(patches->bits, patches->count, any_width(patch_width + gap_width), output);
}

/* Add the block as a patched run if it permits one that is shorter than the direct run; return whether it does. */
static bool try_patched(const Block *block, int direct_width, Output *output)
{
    Patches patches;
    uint64_t bits = 0, gaps = 0;
    int patch_width, gap_width;
    int64_t start = output->size;
    if (!prepare_patches(block, &patches) || patches.base <= -(int64_t)LARGEST_BASE
        || patches.base >= (int64_t)LARGEST_BASE)
        return false;
    for (int patch = 0; patch < patches.count; patch++) {
        bits |= patches.bits[patch];
        gaps |= patches.gaps[patch];
    }
    patch_width = any_width(bit_length(bits));
    gap_width = gaps ? bit_length(gaps) : 1;
    if (patch_width + gap_width > WIDEST_PATCH)
        return false;
    put_patched(block, &patches, gap_width, patch_width, output);
    if (output->size - start >= block->length * direct_width / 8)
        output->size = start;
    return output->size > start;
}

/* Whether at most one code in twenty needs the full width. */
static bool is_patchable(const Block *block, int place)
{
    int64_t wide = 0;
    if (block->length <= FEW || place == 0)
        return false;
    for (int64_t number = 0; number < block->length; number++)
        wide += block->codes[number] >> WRITTEN[place - 1] != 0;
    return wide * FEW <= block->length;
}

/* Blocks */

static void put_block(Block *block, bool is_tame, Output *output)
{
    int direct = place_of_width(block->any_code), steps;
    bool fixed, one_way;
    if (!is_tame || block->length < SHORTEST_REPEAT) {
        put_direct(block, WRITTEN[direct], output);
        return;
    }
    fixed = block->low == block->high;
    if (fixed && block->low == 0 && block->length <= LONGEST_SHORT_REPEAT) {
        put_short_repeat(block, output);
        return;
    }
    if (fixed) {
        put_delta(block, 0, output);
        return;
    }
    /* in a delta run the code of width 1 means a fixed step */
    steps = place_of_width((uint64_t)(block->high > -block->low ? block->high : -block->low) | 2);
    one_way = block->low >= 0 || (block->high <= 0 && (int64_t)block->step < 0);
    if (one_way && steps < direct)
        put_delta(block, WRITTEN[steps], output);
    else if (!is_patchable(block, direct) || !try_patched(block, WRITTEN[direct], output))
        put_direct(block, WRITTEN[direct], output);
}

/* Find the next sequence of one step with at least 128 values from a place on; return false if there is none. */
static bool next_sequence(Numbers values, int64_t from, int64_t to, int64_t *start, int64_t *end)
{
    for (int64_t probe = from; probe + 2 < to; probe += PROBE) {
        uint64_t step = step_at(values, probe);
        if (step_at(values, probe + 1) != step)
            continue;
        for (*start = probe; *start > from && step_at(values, *start - 1) == step;)
            --*start;
        for (*end = probe + 3; *end < to && step_at(values, *end - 1) == step;)
            ++*end;
        if (*end - *start >= SHORTEST_SEQUENCE)
            return true;
    }
    return false;
}

typedef struct {
    Numbers values;
    bool is_signed, is_tame;
    Output *output;
} Encoder;

/* Write values in blocks of 512. */
static Problem encode_region(const Encoder *encoder, int64_t start, int64_t end)
{
    Block block;
    while (start < end) {
        int64_t length = end - start < LONGEST_BLOCK ? end - start : LONGEST_BLOCK;
        /* a patched run is put down before it is known to be shorter: with it come up to 31 patches of 56 bits */
        if (!reserve(encoder->output, LARGEST_HEAD + 8 * length + SURPLUS + 8 * MOST_PATCHES))
            return NO_MEMORY;
        read_block(encoder->values, start, length, encoder->is_signed, &block);
        put_block(&block, encoder->is_tame, encoder->output);
        start += length;
    }
    return SOUND;
}

/* Write values of one step. */
static Problem encode_sequence(const Encoder *encoder, int64_t start, int64_t end)
{
    Output *output = encoder->output;
    uint64_t step = step_at(encoder->values, start);
    while (encoder->is_tame && end - start > LONGEST_SHORT_REPEAT) {
        int64_t length = end - start < LONGEST_BLOCK ? end - start : LONGEST_BLOCK;
        uint64_t first = (uint64_t)number_at(encoder->values, start);
        if (!reserve(output, LARGEST_HEAD))
            return NO_MEMORY;
        put_head(output, 3, 0, length);
        put_varint(output, encoder->is_signed ? zigzag(first) : first);
        put_varint(output, zigzag(step));
        start += length;
    }
    return encode_region(encoder, start, end);
}

/* Differences of values between these bounds do not overflow. */
static bool are_tame(Numbers values, int64_t start, int64_t end)
{
    bool wild = false;
    for (int64_t place = start; place < end; place++)
        wild |= number_at(values, place) <= -TAME || number_at(values, place) >= TAME;
    return !wild;
}

static Problem encode_group(Encoder *encoder, int64_t start, int64_t end)
{
    int64_t from = start, sequence, behind;
    Problem problem;
    encoder->is_tame = are_tame(encoder->values, start, end);
    while (next_sequence(encoder->values, from, end, &sequence, &behind)) {
        /* two adjacent sequences may share a value: it goes to the first */
        sequence = sequence > start ? sequence : start;
        if ((problem = encode_region(encoder, start, sequence)))
            return problem;
        if ((problem = encode_sequence(encoder, sequence, behind)))
            return problem;
        start = behind;
        from = behind - 1;
    }
    return encode_region(encoder, start, end);
}

Problem encode_integers(Numbers values, Numbers groups, bool is_signed, Output *output, int64_t *starts)
{
    Encoder encoder = {values, is_signed, true, output};
    for (int64_t group = 0; group + 1 < groups.count; group++) {
        Problem problem;
        starts[group] = output->size;
        problem = encode_group(&encoder, number_at(groups, group), number_at(groups, group + 1));
        if (problem)
            return problem;
    }
    return SOUND;
}
