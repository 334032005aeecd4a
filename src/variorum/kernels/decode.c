/* What a decoder does for a few rows at a time: its parts one by one, and a whole block at once, keys and values put
 * in their slots.
 *
 * Everything is row-major and float32 unless said otherwise. The plain forms are in products.py, heads.py and block.py.
 */
#include <stdlib.h>

#include "attend.h"

void project(const linear *a, int64_t count, int64_t kind, const float *x, int64_t m, float *out) {
#pragma omp parallel
    project_team(a, count, kind, x, m, out);
}

void gated(const linear *gate, const linear *up, int64_t kind, const float *x, int64_t m, float *out) {
#pragma omp parallel
    gated_team(gate, up, kind, x, m, out);
}

/* Every row of x [m, width] normed -> out. */
void norm_rows(const norm *a, const float *x, int64_t m, float *out) {
#pragma omp parallel for schedule(static) if (m * a->width > WORTH)
    for (int64_t r = 0; r < m; r++) normed(a, x + r * a->width, out + r * a->width);
}

void turn_heads(const attention *a, float *x, int64_t m, const turns *t) {
#pragma omp parallel if (m * a->heads * a->channels > WORTH)
    turn_team(a, x, m, t, 0, 0, 0);
}

void attend(const attention *a, const places *p, const held *q, const held *k, const held *v, float *out) {
#pragma omp parallel if (p->rows * p->queries * a->heads * p->keys * a->channels > WORTH)
    attend_team(a, p, q, k, v, out);
}

/* A norm is absent where the layout has none in its place. */
typedef struct {
    const norm *before, *after, *join;
} around;

typedef struct {
    const attention *attention;
    const linear *projections, *out;         /* query, key, value */
    const linear *gate, *up, *down;          /* no gate: down(activation(up(x))) */
    around attends, feeds;
    int64_t activation, width, parallel, shared, keeps_normed;
} block;

/* norm(x), or x itself where there is none; into `room` [m, width], which is what comes back. */
INLINE float *through(const norm *a, const float *x, int64_t m, int64_t width, float *room) {
    if (a)
        for (int64_t r = 0; r < m; r++) normed(a, x + r * width, room + r * width);
    else if (room != x) memcpy(room, x, (size_t)(m * width) * sizeof(float));
    return room;
}

/* x += y */
INLINE void add(float *x, const float *y, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(x + i, load(x + i) + load(y + i));
    for (; i < n; i++) x[i] += y[i];
}

/* x [m, width] -> out [m, width]; m = B·n. New keys and values go in the slots that `p` names, and are seen there.
 * `room` takes m·(2·(heads + kv_heads)·channels + 2·width + rows of up) numbers. Each thread keeps the residual stream
 * of all rows for itself: adding and norming twice costs less than waiting. */
void block_run(const block *b, const float *x, const turns *t, const places *p, const held *k, const held *v,
               float *room, float *out) {
    const attention *a = b->attention;
    const int64_t m = p->rows * p->queries, d = a->channels, width = b->width, size = m * width;
    const int64_t wide = (a->heads + 2 * a->kv_heads) * d;
    float *every = room, *mixed = every + m * wide, *first = mixed + m * a->heads * d, *second = first + size;
    float *inner = second + size;
    const held q = {every, p->queries * wide, d, wide};
#pragma omp parallel
    {
        float *read = malloc((size_t)(2 * size) * sizeof(float)), *total = read + size;
        through(b->attends.before, x, m, width, read);
        memcpy(total, b->keeps_normed ? read : x, (size_t)size * sizeof(float));
        project_team(b->projections, 3, NOTHING, read, m, every);
#pragma omp barrier
        turn_team(a, every, m, t, p, k, v);
#pragma omp barrier
        attend_team(a, p, &q, k, v, mixed);
#pragma omp barrier
        project_team(b->out, 1, NOTHING, mixed, m, first);
        if (!b->parallel) {
#pragma omp barrier
            add(total, through(b->attends.after, first, m, width, read), size);
            through(b->attends.join, total, m, width, total);
        }
        if (!b->shared) through(b->feeds.before, b->parallel ? x : total, m, width, read);
        if (b->gate) gated_team(b->gate, b->up, b->activation, read, m, inner);
        else project_team(b->up, 1, b->activation, read, m, inner);
        if (b->keeps_normed) memcpy(total, read, (size_t)size * sizeof(float));
#pragma omp barrier
        project_team(b->down, 1, NOTHING, inner, m, second);
#pragma omp barrier
#pragma omp single
        {
            if (b->parallel) add(total, through(b->attends.after, first, m, width, read), size);
            add(total, through(b->feeds.after, second, m, width, read), size);
            through(b->feeds.join, total, m, width, out);
        }
        free(read);
    }
}
