/* What stands before and after a product of int8 codes: rows as codes, each with its own scale, and sums as numbers. */
#include "vector.h"

#define LARGEST 127.0f

INLINE ivec nearest(vec x) {
#ifdef __AVX512F__
    return (ivec)_mm512_cvtps_epi32((__m512)x);
#else
    return (ivec)_mm256_cvtps_epi32((__m256)x);
#endif
}

/* codes = round(x / scale) with scale = max|x| / 127, row by row; a row of zeros has scale 1. */
void encode_rows(const float *x, int64_t rows, int64_t width, int8_t *codes, float *scales) {
#pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        const float *from = x + row * width;
        int8_t *to = codes + row * width;
        vec most = {};
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            const vec v = load(from + i);
            most = larger(most, larger(v, -v));
        }
        float top = largest(most);
        for (int64_t j = i; j < width; j++) top = fmaxf(top, fabsf(from[j]));
        const float scale = top > 0.0f ? top / LARGEST : 1.0f;
        scales[row] = scale;
        for (i = 0; i + LANES <= width; i += LANES) {
            const ivec code = nearest(load(from + i) / all(scale));
            for (int lane = 0; lane < LANES; lane++) to[i + lane] = (int8_t)code[lane];
        }
        for (; i < width; i++) to[i] = (int8_t)nearbyintf(from[i] / scale);
    }
}

/* sums, read as int32 and left as float32: sum · row scale · column scale. */
void decode_rows(void *sums, int64_t rows, int64_t width, const float *row_scales, const float *column_scales) {
#pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        const vec scale = all(row_scales[row]);
        char *at = (char *)sums + row * width * 4;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            ivec sum;
            memcpy(&sum, at + 4 * i, sizeof sum);
            store((float *)(at + 4 * i), __builtin_convertvector(sum, vec) * scale * load(column_scales + i));
        }
        for (; i < width; i++) {
            int32_t sum;
            memcpy(&sum, at + 4 * i, sizeof sum);
            const float number = (float)sum * row_scales[row] * column_scales[i];
            memcpy(at + 4 * i, &number, sizeof number);
        }
    }
}
