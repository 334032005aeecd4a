/* What a step of training does between its matrix products: dropout, and softmax with dropout, forward and back.
 *
 * No mask is stored: whether a number is kept follows from a seed and from its place, the same in both directions, for
 * any number of threads, and in the plain form beside this file.
 */
#include "vector.h"

typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

typedef struct {
    uint64_t seed;
    uint32_t limit; /* of 2^32, numbers below it fall out */
    float scale;    /* of what is kept */
} drops;

enum { PIECE = 4096 };

INLINE uvec evenly(uint32_t x) { return x - (uvec){}; }

INLINE uvec places(uint64_t first) {
    uvec x;
    for (int lane = 0; lane < LANES; lane++) x[lane] = (uint32_t)first + (uint32_t)lane;
    return x;
}

/* 32 bits for each place: two rounds of a hash without known bias (Wellons 2018), one for each half of the seed. */
INLINE uvec noise(uvec place, uint64_t seed) {
    uvec x = place * evenly(0x9E3779B9u) + evenly((uint32_t)seed);
    x ^= x >> 16;
    x *= evenly(0x7FEB352Du);
    x ^= x >> 15;
    x *= evenly(0x846CA68Bu);
    x ^= x >> 16;
    x += evenly((uint32_t)(seed >> 32));
    x ^= x >> 16;
    x *= evenly(0x21F0AAADu);
    x ^= x >> 15;
    x *= evenly(0xD35A2D97u);
    return x ^ (x >> 15);
}

INLINE vec dropped(vec x, uvec place, const drops *d) {
    const ivec kept = (ivec)(noise(place, d->seed) >= evenly(d->limit));
    return (vec)((ivec)(x * all(d->scale)) & kept);
}

/* out = rest + dropped(x), or dropped(x) where there is no rest. n numbers. */
void drop(const float *x, const float *rest, float *out, int64_t n, const drops *d) {
#pragma omp parallel for schedule(static)
    for (int64_t start = 0; start < n; start += PIECE) {
        const int64_t end = start + PIECE < n ? start + PIECE : n;
        uvec place = places((uint64_t)start);
        int64_t i = start;
        for (; i + LANES <= end; i += LANES, place += evenly(LANES)) {
            vec y = dropped(load(x + i), place, d);
            store(out + i, rest ? load(rest + i) + y : y);
        }
        if (i < end) {
            vec y = dropped(load_some(x + i, end - i), place, d);
            store_some(out + i, rest ? load_some(rest + i, end - i) + y : y, end - i);
        }
    }
}

/* How many of the keys a row sees: all, or those up to its own where queries is above 0. */
INLINE int64_t seen(int64_t row, int64_t width, int64_t queries) {
    return queries > 0 ? row % queries + 1 + (width - queries) : width;
}

/* scores [rows, width] become their softmax, and out what dropout leaves of it. */
void soften(float *scores, float *out, int64_t rows, int64_t width, int64_t queries, float scale, const drops *d) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        float *s = scores + row * width, *o = out + row * width;
        const int64_t n = seen(row, width, queries), whole = n - n % LANES;
        float most = -INFINITY, total = 0;
        vec high = all(-INFINITY), sums = {};
        for (int64_t i = 0; i < whole; i += LANES) high = larger(load(s + i), high);
        most = largest(high);
        for (int64_t i = whole; i < n; i++) most = s[i] > most ? s[i] : most;
        for (int64_t i = 0; i < whole; i += LANES) {
            const vec e = vexp((load(s + i) - all(most)) * all(scale));
            sums += e;
            store(s + i, e);
        }
        total = sum(sums);
        if (whole < n) {
            const vec e = vexp((load_some(s + whole, n - whole) - all(most)) * all(scale));
            store_some(s + whole, e, n - whole);
            for (int64_t i = whole; i < n; i++) total += s[i];
        }
        const vec share = all(1 / total);
        uvec place = places((uint64_t)(row * width));
        for (int64_t i = 0; i < whole; i += LANES, place += evenly(LANES)) {
            const vec p = load(s + i) * share;
            store(s + i, p);
            store(o + i, dropped(p, place, d));
        }
        if (whole < n) {
            const vec p = load_some(s + whole, n - whole) * share;
            store_some(s + whole, p, n - whole);
            store_some(o + whole, dropped(p, place, d), n - whole);
        }
        memset(s + n, 0, (size_t)(width - n) * sizeof(float));
        memset(o + n, 0, (size_t)(width - n) * sizeof(float));
    }
}

/* grad [rows, width] of what dropout left becomes that of the scores; weights are their softmax. */
void unsoften(const float *weights, float *grad, int64_t rows, int64_t width, int64_t queries, float scale,
              const drops *d) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float *p = weights + row * width;
        float *g = grad + row * width, common;
        const int64_t n = seen(row, width, queries), whole = n - n % LANES;
        uvec place = places((uint64_t)(row * width));
        vec sums = {};
        for (int64_t i = 0; i < whole; i += LANES, place += evenly(LANES)) {
            const vec x = dropped(load(g + i), place, d);
            sums += x * load(p + i);
            store(g + i, x);
        }
        if (whole < n) {
            const vec x = dropped(load_some(g + whole, n - whole), place, d);
            sums += x * load_some(p + whole, n - whole);
            store_some(g + whole, x, n - whole);
        }
        common = sum(sums);
        for (int64_t i = 0; i < whole; i += LANES)
            store(g + i, load(p + i) * (load(g + i) - all(common)) * all(scale));
        for (int64_t i = whole; i < n; i++) g[i] = p[i] * (g[i] - common) * scale;
        memset(g + n, 0, (size_t)(width - n) * sizeof(float));
    }
}
