/* What a decoder does for a few rows at a time: products whose weights are read once for all rows, norms, rotation, and
 * attention over what a cache holds. The weights are float32 as the model holds them, or int8 with one scale a row.
 *
 * Everything is row-major and float32 unless said otherwise. The plain forms are in the Python files of this folder.
 */
#include <omp.h>

#include "vector.h"

enum { STRIP = 16, MOST = 16, WORTH = 1 << 15 }; /* output rows at a time; input rows; products that pay for a team */

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
        for (int r = 0; r < R; r++) w[r] = weights(row[r], at, bytes);
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

/* The strips of `total` that are this thread's: neighbours, so that it reads one stretch of memory. */
INLINE void mine(int64_t total, int64_t *begin, int64_t *end) {
    const int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    *begin = total * me / team;
    *end = total * (me + 1) / team;
}

/* x [m, columns] through `count` linears that all read it -> out [m, sum of rows], activated; m <= MOST. */
void project(const linear *a, int64_t count, int64_t kind, const float *x, int64_t m, float *out) {
    int64_t total = 0, width = 0;
    for (int64_t i = 0; i < count; i++) {
        total += (a[i].rows + STRIP - 1) / STRIP;
        width += a[i].rows;
    }
#pragma omp parallel if (width * a->columns > WORTH)
    {
        int64_t begin, end, before = 0, column = 0;
        mine(total, &begin, &end);
        for (int64_t i = 0; i < count; i++) {
            const int64_t strips = (a[i].rows + STRIP - 1) / STRIP;
            for (int64_t s = 0; s < strips; s++) {
                if (before + s < begin || before + s >= end) continue;
                float got[MOST][STRIP] = {};
                strip(a + i, s * STRIP, x, m, got);
                const int64_t rows = a[i].rows - s * STRIP < STRIP ? a[i].rows - s * STRIP : STRIP;
                for (int64_t r = 0; r < m; r++) {
                    for (int64_t c = 0; c < STRIP; c += LANES) {
                        const vec value = activate(load(got[r] + c), kind);
                        store(got[r] + c, value);
                    }
                    memcpy(out + r * width + column + s * STRIP, got[r], (size_t)rows * sizeof(float));
                }
            }
            before += strips;
            column += a[i].rows;
        }
    }
}

/* activation(gate(x)) · up(x), x [m, columns] -> out [m, rows]; m <= MOST. */
void gated(const linear *gate, const linear *up, int64_t kind, const float *x, int64_t m, float *out) {
    const int64_t width = gate->rows, total = (width + STRIP - 1) / STRIP;
#pragma omp parallel if (2 * width * gate->columns > WORTH)
    {
        int64_t begin, end;
        mine(total, &begin, &end);
        for (int64_t s = begin; s < end; s++) {
            float got[MOST][STRIP] = {}, other[MOST][STRIP] = {};
            strip(gate, s * STRIP, x, m, got);
            strip(up, s * STRIP, x, m, other);
            const int64_t rows = width - s * STRIP < STRIP ? width - s * STRIP : STRIP;
            for (int64_t r = 0; r < m; r++) {
                for (int64_t c = 0; c < STRIP; c += LANES)
                    store(got[r] + c, activate(load(got[r] + c), kind) * load(other[r] + c));
                memcpy(out + r * width + s * STRIP, got[r], (size_t)rows * sizeof(float));
            }
        }
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

/* Every row of x [m, width] normed -> out, which may be x. */
void norm_rows(const norm *a, const float *x, int64_t m, float *out) {
#pragma omp parallel for schedule(static) if (m * a->width > WORTH)
    for (int64_t r = 0; r < m; r++) normed(a, x + r * a->width, out + r * a->width);
}

typedef struct {
    int64_t heads, kv_heads, channels;
    int64_t rotated, interleaved; /* channels that turn; pairs are neighbours, or the first half meets the second */
    int64_t causal, window;       /* window: the last so many keys, 0 for all */
    const norm *query_norm, *key_norm; /* over one head, or none */
    float clip, scale, softcap;   /* infinite, and 0, for none */
} attention;

static void turn(const attention *a, float *x, const float *cosine, const float *sine) {
    const int64_t half = a->rotated / 2;
    for (int64_t i = 0; i < half; i++) {
        float *one = x + (a->interleaved ? 2 * i : i), *two = a->interleaved ? one + 1 : one + half;
        const float first = *one, second = *two;
        *one = first * cosine[i] - second * sine[i];
        *two = second * cosine[i] + first * sine[i];
    }
}

/* Projected queries, keys and values [m, (heads + 2·kv_heads)·channels], in place: clipped, normed, turned.
 * Row r takes row r % period of the tables [period, rotated / 2]. */
void turn_heads(const attention *a, float *x, int64_t m, const float *cosine, const float *sine, int64_t period) {
    const int64_t d = a->channels, every = a->heads + 2 * a->kv_heads;
    for (int64_t r = 0; r < m; r++)
        for (int64_t h = 0; h < every; h++) {
            float *head = x + (r * every + h) * d;
            if (a->clip < INFINITY)
                for (int64_t i = 0; i < d; i++) head[i] = fminf(fmaxf(head[i], -a->clip), a->clip);
            const norm *around = h < a->heads ? a->query_norm : h < a->heads + a->kv_heads ? a->key_norm : 0;
            if (around) normed(around, head, head);
            if (cosine && h < a->heads + a->kv_heads)
                turn(a, head, cosine + r % period * (a->rotated / 2), sine + r % period * (a->rotated / 2));
        }
}

/* [B or 1, heads, tokens, channels] by its strides; channels are neighbours. */
typedef struct {
    const float *data;
    int64_t row, head, token;
} held;

/* Who is where: orders [B or 1, Q] and [B or 1, K], -1 for nothing there; strides are 0 where one row stands for all.
 * The bias [B or 1, H, Q, K] is by strides, or none. */
typedef struct {
    const int64_t *query_order, *key_order;
    int64_t query_row, key_row, rows, queries, keys;
    const float *bias;
    int64_t bias_row, bias_head, bias_query, bias_key;
} places;

enum { BLOCK = 128, WIDEST = 1024 }; /* keys at a time; channels of one head */

INLINE float dot(const float *a, const float *b, int64_t n) {
    vec total = all(0.0f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) total += load(a + i) * load(b + i);
    if (i < n) total += load_some(a + i, n - i) * load_some(b + i, n - i);
    return sum(total);
}

/* out += sum over keys of weight · value, W <= 4 vectors of channels in registers. */
INLINE void blend(const float *weight, int64_t keys, const float *value, int64_t stride, int W, float *out) {
    vec sums[4];
#pragma GCC unroll 4
    for (int w = 0; w < W; w++) sums[w] = load(out + w * LANES);
    for (int64_t j = 0; j < keys; j++)
#pragma GCC unroll 4
        for (int w = 0; w < W; w++) sums[w] += all(weight[j]) * load(value + j * stride + w * LANES);
#pragma GCC unroll 4
    for (int w = 0; w < W; w++) store(out + w * LANES, sums[w]);
}

static void blend_all(const float *weight, int64_t keys, const float *value, int64_t stride, int64_t d, float *out) {
    int64_t i = 0;
    for (; i + 4 * LANES <= d; i += 4 * LANES) blend(weight, keys, value + i, stride, 4, out + i);
    for (; i + LANES <= d; i += LANES) blend(weight, keys, value + i, stride, 1, out + i);
    for (; i < d; i++)
        for (int64_t j = 0; j < keys; j++) out[i] += weight[j] * value[j * stride + i];
}

/* One query of one head over all keys: softmax taken block by block, each time rescaled to the largest score so far.
 * A query that sees nothing gives 0. */
static void attend_one(const attention *a, const places *p, const float *q, const float *k, int64_t k_stride,
                       const float *v, int64_t v_stride, int64_t order, const int64_t *orders, const float *bias,
                       float *out) {
    const int64_t d = a->channels;
    float sums[WIDEST] = {}, best = -INFINITY, total = 0.0f;
    for (int64_t start = 0; start < p->keys && order >= 0; start += BLOCK) {
        const int64_t count = p->keys - start < BLOCK ? p->keys - start : BLOCK;
        float score[BLOCK], top = -INFINITY;
        for (int64_t j = 0; j < BLOCK; j++) {
            score[j] = -INFINITY;
            if (j >= count) continue;
            const int64_t at = orders[start + j];
            if (at < 0 || (a->causal && at > order) || (a->window && at <= order - a->window)) continue;
            float s = dot(q, k + (start + j) * k_stride, d) * a->scale;
            if (bias) s += bias[(start + j) * p->bias_key];
            if (a->softcap > 0.0f) s = a->softcap * tanhf(s / a->softcap);
            score[j] = s;
            top = s > top ? s : top;
        }
        if (top == -INFINITY) continue;
        const float next = top > best ? top : best, shrink = expf(best - next);
        vec block = all(0.0f);
        for (int64_t j = 0; j < BLOCK; j += LANES) {
            const vec weight = vexp(load(score + j) - all(next));
            store(score + j, weight);
            block += weight;
        }
        for (int64_t i = 0; i < d; i++) sums[i] *= shrink;
        blend_all(score, count, v + start * v_stride, v_stride, d, sums);
        total = total * shrink + sum(block);
        best = next;
    }
    const float by = total > 0.0f ? 1.0f / total : 0.0f;
    for (int64_t i = 0; i < d; i++) out[i] = sums[i] * by;
}

/* Queries [B, heads, Q, channels] over what is held -> out [B, Q, heads, channels], without gaps. */
void attend(const attention *a, const places *p, const held *q, const held *k, const held *v, float *out) {
    const int64_t d = a->channels, group = a->heads / a->kv_heads, items = p->rows * p->queries * a->heads;
#pragma omp parallel for schedule(static) if (items * p->keys * d > WORTH)
    for (int64_t item = 0; item < items; item++) {
        const int64_t h = item % a->heads, r = item / a->heads, row = r / p->queries, query = r % p->queries;
        const float *bias = 0;
        if (p->bias) bias = p->bias + row * p->bias_row + h * p->bias_head + query * p->bias_query;
        attend_one(a, p, q->data + row * q->row + h * q->head + query * q->token,
                   k->data + row * k->row + h / group * k->head, k->token,
                   v->data + row * v->row + h / group * v->head, v->token, p->query_order[row * p->query_row + query],
                   p->key_order + row * p->key_row, bias, out + item * d);
    }
}
