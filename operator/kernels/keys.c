/* The order of events, and which rows delete events hit. References: merge/keys.py. */
#include "kernels.h"

/* Compare two ROW__IDs: negative, 0 or positive as one comes before, is, or comes after the other. */
static inline int compare_rows(const Rows *one, int64_t place, const Rows *other, int64_t other_place)
{
    for (int column = 0; column < ROW_COLUMNS; column++) {
        int64_t left = number_at(one->columns[column], place), right = number_at(other->columns[column], other_place);
        if (left != right)
            return left < right ? -1 : 1;
    }
    return 0;
}

/* NB: the least number has no opposite; the reference wraps, too. */
static inline int64_t negated(int64_t number)
{
    return (int64_t)(0 - (uint64_t)number);
}

int64_t first_not_ascending(Rows rows, Numbers current)
{
    for (int64_t place = 1; place < current.count; place++) {
        int order = compare_rows(&rows, place - 1, &rows, place);
        if (order > 0 || (order == 0 && negated(number_at(current, place)) <= negated(number_at(current, place - 1))))
            return place;
    }
    return -1;
}

bool find_hits(Rows rows, Rows deletes, uint8_t *hits)
{
    int64_t count = rows.columns[0].count, deleted = deletes.columns[0].count, next = 0;
    for (int64_t place = 0; place < count; place++) {
        int order = -1;
        if (place && compare_rows(&rows, place - 1, &rows, place) > 0)
            return false;
        while (next < deleted && (order = compare_rows(&deletes, next, &rows, place)) < 0)
            next++;
        hits[place] = next < deleted && order == 0;
    }
    return true;
}
