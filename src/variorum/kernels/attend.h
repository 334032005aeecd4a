/* What attention does between its projections, for a few queries over what a cache holds. */
#ifndef VARIORUM_ATTEND_H
#define VARIORUM_ATTEND_H

#include "rows.h"

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

/* Tables [period, rotated / 2], or none; row r of x takes row r % period. */
typedef struct {
    const float *cosine, *sine;
    int64_t period;
} turns;

/* [B or 1, heads, tokens, channels] by its strides; channels are neighbours. */
typedef struct {
    float *data;
    int64_t row, head, token;
} held;

/* Who is where: orders [B or 1, Q] and [B or 1, K], -1 for nothing there; strides are 0 where one row stands for all.
 * The bias [B or 1, H, Q, K] is by strides, or none. `slots` [B or 1, Q] are the new tokens' own, -1 for one that is not
 * kept; whoever only attends needs none. */
typedef struct {
    const int64_t *query_order, *key_order;
    int64_t query_row, key_row, rows, queries, keys;
    const float *bias;
    int64_t bias_row, bias_head, bias_query, bias_key;
    const int64_t *slots;
    int64_t slots_row;
} places;

/* Heads of projected queries, keys and values [m, (heads + 2·kv_heads)·channels], in place: clipped, normed, turned.
 * Keys and values also go in the slots of k and v that `p` names, where those are given. */
static void turn_team(const attention *a, float *x, int64_t m, const turns *t, const places *p, const held *k,
                      const held *v) {
    const int64_t d = a->channels, asked = a->heads, keys = asked + a->kv_heads, every = keys + a->kv_heads;
    int64_t begin, end;
    mine(m * every, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        const int64_t r = item / every, h = item % every, table = r % t->period * (a->rotated / 2);
        float *head = x + item * d;
        if (a->clip < INFINITY)
            for (int64_t i = 0; i < d; i++) head[i] = fminf(fmaxf(head[i], -a->clip), a->clip);
        const norm *around = h < asked ? a->query_norm : h < keys ? a->key_norm : 0;
        if (around) normed(around, head, head);
        if (t->cosine && h < keys) turn(a, head, t->cosine + table, t->sine + table);
        if (!p || h < asked) continue;
        const held *into = h < keys ? k : v;
        const int64_t row = r / p->queries, slot = p->slots[row * p->slots_row + r % p->queries];
        float *own = into->data + row * into->row + (h < keys ? h - asked : h - keys) * into->head;
        if (slot >= 0) memcpy(own + slot * into->token, head, (size_t)d * sizeof(float));
    }
}

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
static void attend_team(const attention *a, const places *p, const held *q, const held *k, const held *v, float *out) {
    const int64_t d = a->channels, group = a->heads / a->kv_heads;
    int64_t begin, end;
    mine(p->rows * p->queries * a->heads, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        const int64_t h = item % a->heads, r = item / a->heads, row = r / p->queries, query = r % p->queries;
        const float *bias = 0;
        if (p->bias) bias = p->bias + row * p->bias_row + h * p->bias_head + query * p->bias_query;
        attend_one(a, p, q->data + row * q->row + h * q->head + query * q->token,
                   k->data + row * k->row + h / group * k->head, k->token,
                   v->data + row * v->row + h / group * v->head, v->token, p->query_order[row * p->query_row + query],
                   p->key_order + row * p->key_row, bias, out + item * d);
    }
}

#endif
