/* The bit widths of packed integers (ORC specification, "Direct"). */
#include "kernels.h"

static const uint8_t WIDTHS[32] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                   17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 40, 48, 56, 64};

int width_of_code(int code)
{
    return WIDTHS[code & 31];
}

int code_of_width(int width)
{
    int code = 0;
    while (code < 31 && WIDTHS[code] < width)
        code++;
    return code;
}

int any_width(int bits)
{
    return bits > 64 ? 0 : WIDTHS[code_of_width(bits)];
}
