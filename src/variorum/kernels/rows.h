/* Products of a few rows with weights that are read once for all of them, and norms of rows.
 *
 * Weights are float32 as the model holds them, or int8 with one scale a row. The functions for a team are called by all
 * of its threads, and each does its share; nobody waits in them.
 */
#ifndef VARIORUM_ROWS_H
#define VARIORUM_ROWS_H

#include <omp.h>

#include "vector.h"

enum { STRIP = 16, GROUP = 4, MOST = 16, WORTH = 1 << 15 }; /* output rows at a time; input rows; products that pay for a team */

typedef struct {
    const void *weight; /* [rows, columns]: float32, or int8 where scale is given */
    const float *scale; /* [rows] */
    const float *bias;  /* [rows], or none */
    int64_t rows, columns;
} linear;

INLINE vec weights(const void *row, int64_t at, int bytes) {
    return bytes ? load_bytes((const int8_t *)row + at) : load((const float *)row + at);
}

INLINE vec weights_some(const void *row, int64_t at, int64_t n, int bytes) {
    if (!bytes) return load_some((const float *)row + at, n);
    int8_t some[LANES] = {};
    memcpy(some, (const int8_t *)row + at, (size_t)n);
    return load_bytes(some);
}

/* R <= 4 rows of weights times M <= 8 rows of x. R and M are constants where this is inlined, so all sums are registers:
 * that is also why the arrays have sizes of their own. */
INLINE void tile(const void *const *row, int bytes, const float *x, int64_t columns, int R, int M, float (*out)[STRIP]) {
    vec sums[4][8], w[4];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) sums[r][m] = all(0.0f);
    int64_t at = 0;
    for (; at + LANES <= columns; at += LANES) {
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            w[r] = weights(row[r], at, bytes);
            __builtin_prefetch((const char *)row[r] + (GROUP * columns + at) * (bytes ? 1 : 4));
        }
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) {
            const vec v = load(x + m * columns + at);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) sums[r][m] += w[r] * v;
        }
    }
    if (at < columns) {
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) w[r] = weights_some(row[r], at, columns - at, bytes);
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) {
            const vec v = load_some(x + m * columns + at, columns - at);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) sums[r][m] += w[r] * v;
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) out[m][r] = sum(sums[r][m]);
}

INLINE void tiles(const void *const *row, int bytes, const float *x, int64_t columns, int64_t m, float (*out)[STRIP]) {
    const float *last = x + m * columns;
    while (x < last) {
        const int64_t left = (last - x) / columns;
        int done = 8;
        if (left >= 8) {
            tile(row, bytes, x, columns, 2, 8, out);
            tile(row + 2, bytes, x, columns, 2, 8, (float(*)[STRIP])(&out[0][2]));
        } else if (left >= 4) tile(row, bytes, x, columns, 4, done = 4, out);
        else if (left >= 2) tile(row, bytes, x, columns, 4, done = 2, out);
        else tile(row, bytes, x, columns, 4, done = 1, out);
        x += done * columns;
        out += done;
    }
}

/* Output rows first .. first + STRIP of one linear, scale and bias in, for m rows of x. Rows past the end repeat. */
static void strip(const linear *a, int64_t first, const float *x, int64_t m, float (*out)[STRIP]) {
    const int bytes = a->scale != 0;
    const int64_t size = a->columns * (bytes ? 1 : (int64_t)sizeof(float));
    for (int64_t r = 0; r < STRIP && first + r < a->rows; r += 4) {
        const void *row[4];
        for (int64_t i = 0; i < 4; i++) {
            const int64_t at = first + r + i < a->rows ? first + r + i : a->rows - 1;
            row[i] = (const char *)a->weight + at * size;
        }
        if (bytes) tiles(row, 1, x, a->columns, m, (float(*)[STRIP])(&out[0][r]));
        else tiles(row, 0, x, a->columns, m, (float(*)[STRIP])(&out[0][r]));
    }
    for (int64_t r = 0; r < STRIP && first + r < a->rows; r++) {
        const float scale = bytes ? a->scale[first + r] : 1.0f, bias = a->bias ? a->bias[first + r] : 0.0f;
        for (int64_t i = 0; i < m; i++) out[i][r] = out[i][r] * scale + bias;
    }
}

INLINE int64_t strips(const linear *a) { return (a->rows + STRIP - 1) / STRIP; }

/* A strip of sums, activated and where `factor` is given multiplied -> m rows of out, `width` apart. */
INLINE void put(float (*got)[STRIP], int64_t rows, int64_t kind, float (*factor)[STRIP], int64_t m, float *out,
                int64_t width) {
    rows = rows < STRIP ? rows : STRIP;
    for (int64_t r = 0; r < m; r++) {
        for (int64_t c = 0; c < STRIP; c += LANES) {
            const vec value = activate(load(got[r] + c), kind);
            store(got[r] + c, factor ? value * load(factor[r] + c) : value);
        }
        memcpy(out + r * width, got[r], (size_t)rows * sizeof(float));
    }
}

/* The share of `total` that is this thread's: neighbours, so that it reads one stretch of memory. */
INLINE void mine(int64_t total, int64_t *begin, int64_t *end) {
    const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    *begin = total * me / team;
    *end = total * (me + 1) / team;
}

/* x [m, columns] through `count` linears that all read it -> out [m, sum of rows], activated; m <= MOST. */
static void project_team(const linear *a, int64_t count, int64_t kind, const float *x, int64_t m, float *out) {
    int64_t total = 0, width = 0, before = 0, column = 0, begin, end;
    for (int64_t i = 0; i < count; i++) {
        total += strips(a + i);
        width += a[i].rows;
    }
    mine(total, &begin, &end);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t s = 0; s < strips(a + i); s++) {
            if (before + s < begin || before + s >= end) continue;
            float got[MOST][STRIP] = {};
            strip(a + i, s * STRIP, x, m, got);
            put(got, a[i].rows - s * STRIP, kind, 0, m, out + column + s * STRIP, width);
        }
        before += strips(a + i);
        column += a[i].rows;
    }
}

/* activation(gate(x)) · up(x), x [m, columns] -> out [m, rows]; m <= MOST. */
static void gated_team(const linear *gate, const linear *up, int64_t kind, const float *x, int64_t m, float *out) {
    int64_t begin, end;
    mine(strips(gate), &begin, &end);
    for (int64_t s = begin; s < end; s++) {
        float got[MOST][STRIP] = {}, factor[MOST][STRIP] = {};
        strip(gate, s * STRIP, x, m, got);
        strip(up, s * STRIP, x, m, factor);
        put(got, gate->rows - s * STRIP, kind, factor, m, out + s * STRIP, gate->rows);
    }
}

typedef struct {
    const float *weight, *bias; /* [width]; bias or none */
    int64_t width, centred;     /* centred: LayerNorm, else RMSNorm */
    float eps, offset;          /* what is stored of a weight w is w - offset */
} norm;

INLINE vec squares(const float *x, int64_t at, int64_t n, vec mean) {
    if (at + LANES <= n) return (load(x + at) - mean) * (load(x + at) - mean);
    vec rest = load_some(x + at, n - at) - mean;
    for (int i = (int)(n - at); i < LANES; i++) rest[i] = 0.0f;
    return rest * rest;
}

static void normed(const norm *a, const float *x, float *out) {
    const int64_t n = a->width;
    vec mean = all(0.0f), variance = all(0.0f);
    if (a->centred) {
        vec total = all(0.0f);
        for (int64_t i = 0; i < n; i += LANES) total += i + LANES <= n ? load(x + i) : load_some(x + i, n - i);
        mean = all(sum(total) / (float)n);
    }
    for (int64_t i = 0; i < n; i += LANES) variance += squares(x, i, n, mean);
    const vec scale = all(1.0f / sqrtf(sum(variance) / (float)n + a->eps)), offset = all(a->offset);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vec y = (load(x + i) - mean) * scale * (load(a->weight + i) + offset);
        store(out + i, a->bias ? y + load(a->bias + i) : y);
    }
    if (i < n) {
        const vec y = (load_some(x + i, n - i) - mean) * scale * (load_some(a->weight + i, n - i) + offset);
        store_some(out + i, a->bias ? y + load_some(a->bias + i, n - i) : y, n - i);
    }
}

#endif
