/* Bounds and sums of the values of a row group. References: file/statistics.py. */
#include "kernels.h"

enum { LONGEST_DECIMAL = 10 }; /* bytes of 64 bits as a base-128 number */

IntegerStatistics integer_statistics(Numbers values)
{
    IntegerStatistics found = {values.count ? number_at(values, 0) : 0, values.count ? number_at(values, 0) : 0, 0, false};
    for (int64_t place = 0; place < values.count; place++) {
        int64_t value = number_at(values, place);
        found.least = value < found.least ? value : found.least;
        found.greatest = value > found.greatest ? value : found.greatest;
        found.overflows |= __builtin_add_overflow(found.sum, value, &found.sum);
    }
    return found;
}

/* Read a base-128 number of the given bytes, whatever their highest bits say; return false if it has over 64 bits. */
static bool read_decimal(const uint8_t *data, int64_t size, int64_t *value)
{
    uint64_t code = 0;
    if (size > LONGEST_DECIMAL || (size == LONGEST_DECIMAL && (data[size - 1] & 0x7F) > 1))
        return false;
    for (int64_t place = 0; place < size; place++)
        code |= (uint64_t)(data[place] & 0x7F) << 7 * place;
    *value = (int64_t)unzigzag(code);
    return true;
}

static void add_decimal(DecimalStatistics *found, int64_t value)
{
    found->least = !found->count || value < found->least ? value : found->least;
    found->greatest = !found->count || value > found->greatest ? value : found->greatest;
    found->sum += value;
    found->count++;
}

bool decimal_statistics(Stream data, Numbers offsets, Numbers scales, DecimalStatistics *by_scale)
{
    for (int64_t place = 0; place < scales.count; place++) {
        int64_t start = number_at(offsets, place), end = number_at(offsets, place + 1), value;
        int64_t scale = number_at(scales, place);
        if (start < 0 || end < start || end > data.size || scale < 0 || scale >= DECIMAL_SCALES)
            return false;
        if (!read_decimal(data.data + start, end - start, &value))
            return false;
        add_decimal(&by_scale[scale], value);
    }
    return true;
}

enum { MILLISECOND = 1000000, SECOND = 1000000000 }; /* in nanoseconds */

#define EPOCH 1420070400 /* 2015, the base of a stream's seconds */
#define LARGEST_SECONDS ((int64_t)1 << 53)

/* Read nanoseconds, whose lowest three bits count the zeros that are left out, less one; return -1 for others. */
static int64_t read_nanos(int64_t code)
{
    static const int64_t powers[] = {1, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    int64_t digits = code >> 3;
    if (code < 0 || digits >= SECOND || digits * powers[code & 7] >= SECOND)
        return -1;
    return digits * powers[code & 7];
}

bool timestamp_bounds(Numbers seconds, Numbers nanos, int64_t *least, int64_t *greatest)
{
    *least = *greatest = 0;
    for (int64_t place = 0; place < seconds.count; place++) {
        int64_t second = number_at(seconds, place), nano = read_nanos(number_at(nanos, place)), time, up;
        if (nano < 0 || second > LARGEST_SECONDS || second < -LARGEST_SECONDS)
            return false;
        time = (second + EPOCH) * 1000 + nano / MILLISECOND;
        time -= time < 0 && nano >= MILLISECOND ? 1000 : 0; /* as Java does */
        up = time + (nano % MILLISECOND != 0);
        *least = !place || time < *least ? time : *least;
        *greatest = !place || up > *greatest ? up : *greatest;
    }
    return true;
}

/* A string of the data. */
typedef struct {
    const uint8_t *data;
    int64_t size;
} Text;

/* Whether a string comes before another in the order of their bytes. */
static bool is_before(Text one, Text other)
{
    int order = memcmp(one.data, other.data, (size_t)(one.size < other.size ? one.size : other.size));
    return order < 0 || (order == 0 && one.size < other.size);
}

bool string_bounds(Stream data, Numbers offsets, int64_t *least, int64_t *greatest)
{
    Text low = {NULL, 0}, high = {NULL, 0};
    *least = *greatest = 0;
    for (int64_t place = 0; place + 1 < offsets.count; place++) {
        int64_t start = number_at(offsets, place), end = number_at(offsets, place + 1);
        Text text;
        if (start < 0 || end < start || end > data.size)
            return false;
        text = (Text){data.data + start, end - start};
        if (!place || is_before(text, low)) {
            low = text;
            *least = place;
        }
        if (!place || is_before(high, text)) {
            high = text;
            *greatest = place;
        }
    }
    return true;
}
