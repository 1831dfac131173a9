/* Bloom filters, bit for bit as ORC's Java writer sets them. References: _hash_bytes and _set_bits in encoding/bloom.py. */
#include "kernels.h"

#define SEED 104729
#define FACTOR_1 0x87C37B91114253D5u
#define FACTOR_2 0x4CF5AD432745937Fu

static inline uint64_t rotated(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline uint64_t mixed(uint64_t word)
{
    return rotated(word * FACTOR_1, 31) * FACTOR_2;
}

/* Return Murmur3.hash64, whose words have their lowest byte first. */
static uint64_t hash_string(const uint8_t *data, int64_t size)
{
    uint64_t hash = SEED, word;
    int64_t rest = size;
    for (; rest >= 8; rest -= 8, data += 8) {
        memcpy(&word, data, 8);
        hash = rotated(hash ^ mixed(word), 27) * 5 + 0x52DCE729;
    }
    word = 0;
    memcpy(&word, data, (size_t)rest);
    hash ^= mixed(word) ^ (uint64_t)size;
    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDu;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53u;
    return hash ^ hash >> 33;
}

bool hash_strings(Stream data, Numbers offsets, uint64_t *hashes)
{
    for (int64_t place = 0; place + 1 < offsets.count; place++) {
        int64_t start = number_at(offsets, place), end = number_at(offsets, place + 1);
        if (start < 0 || end < start || end > data.size)
            return false;
        hashes[place] = hash_string(data.data + start, end - start);
    }
    return true;
}

/* Java adds multiples of the hash's upper half to the lower one, and takes the complement of a negative sum. */
void set_bits(Numbers hashes, int functions, uint8_t *bits, int64_t number_of_bits)
{
    for (int64_t place = 0; place < hashes.count; place++) {
        uint64_t hash = (uint64_t)number_at(hashes, place);
        uint32_t sum = (uint32_t)hash, more = (uint32_t)(hash >> 32);
        for (int function = 0; function < functions; function++) {
            sum += more;
            int64_t bit = (int64_t)(sum >> 31 ? ~sum : sum) % number_of_bits;
            bits[bit / 8] |= (uint8_t)(1 << bit % 8);
        }
    }
}
