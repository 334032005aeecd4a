/* What an encoder does between its matrix products, over a stream of texts laid end to end: one pass of memory each. And
 * all of a block for a few rows, where waking threads and calling from Python would take longer than the work.
 *
 * Everything is row-major and float32. The plain forms are in encode.py and encode_block.py.
 */
#include <stdlib.h>

#include "vector.h"

enum { WORTH = 1 << 15 }; /* numbers that pay for waking a team of threads */

INLINE int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

INLINE vec load_most(const float *p, int64_t n) { return n >= LANES ? load(p) : load_some(p, n); }

INLINE void store_most(float *p, vec x, int64_t n) {
    if (n >= LANES) store(p, x);
    else store_some(p, x, n);
}

/* ---- activations ---- */

/* gate = f(gate + gate_bias) · (up + up_bias), row by row. Without `up` nothing is multiplied; biases may be absent. */
typedef struct {
    float *gate;
    const float *gate_bias, *up, *up_bias;
    int64_t rows, width, kind;
} activation;

INLINE void activated(const activation *a, int64_t kind) {
#pragma omp for
    for (int64_t row = 0; row < a->rows; row++) {
        float *gate = a->gate + row * a->width;
        const float *up = a->up ? a->up + row * a->width : 0;
        for (int64_t i = 0; i < a->width; i += LANES) {
            const int64_t left = a->width - i;
            vec x = load_most(gate + i, left);
            if (a->gate_bias) x += load_most(a->gate_bias + i, left);
            x = activate(x, kind);
            if (up) {
                vec factor = load_most(up + i, left);
                if (a->up_bias) factor += load_most(a->up_bias + i, left);
                x *= factor;
            }
            store_most(gate + i, x, left);
        }
    }
}

/* The rows that fall to this thread of the team. */
static void activate_share(const activation *a) {
    switch (a->kind) { /* a constant for each loop */
    case RELU: activated(a, RELU); break;
    case GELU: activated(a, GELU); break;
    case GELU_TANH: activated(a, GELU_TANH); break;
    case SILU: activated(a, SILU); break;
    case TANH: activated(a, TANH); break;
    default: activated(a, NOTHING);
    }
}

void activate_rows(const activation *a) {
#pragma omp parallel if (a->rows * a->width > WORTH)
    activate_share(a);
}

/* ---- residual and norm ---- */

/* total = x + y + bias, and normed = norm(total) · (weight + unit) + shift. What is absent is left out: nothing is added
 * then, or the total or the norm is not wanted. Centred norms are LayerNorm, the others RMSNorm. */
typedef struct {
    const float *x, *y, *bias, *weight, *shift;
    float *total, *normed;
    int64_t rows, width, centred;
    float eps, unit;
} joint;

INLINE float mean_square(const float *x, int64_t width, float mean) {
    vec squares = {};
    for (int64_t i = 0; i < width; i += LANES) {
        const int64_t left = width - i;
        vec d = load_most(x + i, left) - all(mean);
        if (left < LANES) d = load_some((float *)&d, left); /* the lanes behind hold −mean */
        squares += d * d;
    }
    return sum(squares) / (float)width;
}

static void normed_row(const joint *j, const float *total, float mean, float *out) {
    const float scale = 1.0f / sqrtf(mean_square(total, j->width, mean) + j->eps);
    for (int64_t i = 0; i < j->width; i += LANES) {
        const int64_t left = j->width - i;
        vec x = (load_most(total + i, left) - all(mean)) * all(scale) * (load_most(j->weight + i, left) + all(j->unit));
        if (j->shift) x += load_most(j->shift + i, left);
        store_most(out + i, x, left);
    }
}

/* The rows that fall to this thread of the team. */
static void join_share(const joint *j) {
    const int64_t width = j->width;
#pragma omp for
    for (int64_t row = 0; row < j->rows; row++) {
        const float *x = j->x + row * width, *y = j->y ? j->y + row * width : 0;
        float *normed = j->normed ? j->normed + row * width : 0, *total = j->total ? j->total + row * width : normed;
        vec sums = {};
        for (int64_t i = 0; i < width; i += LANES) {
            const int64_t left = width - i;
            vec t = load_most(x + i, left);
            if (y) t += load_most(y + i, left);
            if (j->bias) t += load_most(j->bias + i, left);
            store_most(total + i, t, left);
            sums += t;
        }
        if (normed) normed_row(j, total, j->centred ? sum(sums) / (float)width : 0.0f, normed);
    }
}

void join_rows(const joint *j) {
#pragma omp parallel if (j->rows * j->width > WORTH)
    join_share(j);
}

/* ---- attention ---- */

/* softmax(scale · q·k + near) · v, every text of the stream by itself. Rows are tokens, `*_stride` floats apart; head h
 * starts at h · size in them, and keys and values are those of its group.
 *
 * Biases of the projections are added here: that of the values last, for weights sum to 1. `turn` holds cosines and
 * sines of each token, [tokens, 2, pairs]: channel i < pairs turns with channel i + pairs. `near` holds a number for
 * each head and distance, key minus query, from -reach to reach; further away counts as the last of them. A window
 * shows keys at most that far away; a negative one shows all. */
typedef struct {
    const float *q, *k, *v;
    float *out;
    const float *q_bias, *k_bias, *v_bias, *turn, *near;
    const int64_t *starts; /* of texts, and the end of the last */
    int64_t texts, heads, kv_heads, size, q_stride, k_stride, v_stride, out_stride, pairs, reach, window;
    float scale;
} attention;

typedef struct {
    float *keys, *values, *queries, *scores, *mixed;
} scratch;

enum { QUERIES = 6, COLUMNS = LANES == 16 ? 4 : 2 }; /* rows, and vectors of columns, whose sums registers hold */

/* out = left · right for QUERIES rows and `wide` vectors of columns, summed over first .. last. */
INLINE void tile(
    float *out, int64_t out_stride, const float *left, int64_t left_stride, const float *right, int64_t right_stride,
    int64_t first, int64_t last, int wide
) {
    vec sums[QUERIES][COLUMNS];
    for (int i = 0; i < QUERIES; i++)
        for (int c = 0; c < wide; c++) sums[i][c] = all(0.0f);
    for (int64_t d = first; d < last; d++) {
        vec r[COLUMNS];
        for (int c = 0; c < wide; c++) r[c] = load(right + d * right_stride + c * LANES);
        for (int i = 0; i < QUERIES; i++) {
            const vec l = all(left[i * left_stride + d]);
            for (int c = 0; c < wide; c++) sums[i][c] += l * r[c];
        }
    }
    for (int i = 0; i < QUERIES; i++)
        for (int c = 0; c < wide; c++) store(out + i * out_stride + c * LANES, sums[i][c]);
}

/* The same for the columns from `begin` to `end`, a whole number of vectors. */
static void product(
    float *out, int64_t out_stride, const float *left, int64_t left_stride, const float *right, int64_t right_stride,
    int64_t first, int64_t last, int64_t begin, int64_t end
) {
    for (int64_t at = begin; at < end;) {
        const int64_t left_over = (end - at) / LANES;
#define TILE(wide) tile(out + at, out_stride, left, left_stride, right + at, right_stride, first, last, wide)
        if (left_over >= COLUMNS) TILE(COLUMNS), at += COLUMNS * LANES;
        else if (left_over >= 2) TILE(2), at += 2 * LANES;
        else TILE(1), at += LANES;
#undef TILE
    }
}

/* One token's query or key: bias added, turned, scaled. */
INLINE void placed(const attention *a, float *to, const float *row, const float *bias, int64_t token, float scale) {
    for (int64_t i = 0; i < a->size; i += LANES) {
        const int64_t left = a->size - i;
        vec x = load_most(row + i, left);
        if (bias) x += load_most(bias + i, left);
        store_most(to + i, x * all(scale), left);
    }
    if (!a->turn) return;
    const float *cosine = a->turn + token * 2 * a->pairs, *sine = cosine + a->pairs;
    for (int64_t i = 0; i < a->pairs; i++) {
        const float one = to[i], other = to[i + a->pairs];
        to[i] = one * cosine[i] - other * sine[i];
        to[i + a->pairs] = other * cosine[i] + one * sine[i];
    }
}

/* The keys of a text as columns, its values as rows, both filled up to whole vectors with zeros. */
static void gather(const attention *a, int64_t start, int64_t length, int64_t group, scratch s) {
    const int64_t size = a->size, wide = up(length, LANES), broad = up(size, LANES);
    const float *bias = a->k_bias ? a->k_bias + group * size : 0;
    for (int64_t t = 0; t < length; t++) {
        const float *value = a->v + (start + t) * a->v_stride + group * size;
        placed(a, s.mixed, a->k + (start + t) * a->k_stride + group * size, bias, start + t, 1.0f);
        for (int64_t i = 0; i < size; i++) s.keys[i * wide + t] = s.mixed[i];
        for (int64_t i = 0; i < size; i += LANES) store(s.values + t * broad + i, load_most(value + i, size - i));
    }
    for (int64_t i = 0; i < size; i++)
        for (int64_t t = length; t < wide; t++) s.keys[i * wide + t] = 0.0f;
}

/* e^(score - largest) of the keys begin .. end, 0 for the others of `from` .. `to`; returns 1 / their sum. */
INLINE float softmax(float *scores, int64_t begin, int64_t end, int64_t from, int64_t to) {
    for (int64_t t = from; t < begin; t++) scores[t] = -INFINITY;
    for (int64_t t = end; t < to; t++) scores[t] = -INFINITY;
    vec most = all(-INFINITY), total = {};
    for (int64_t t = from; t < to; t += LANES) most = larger(load(scores + t), most);
    const vec top = all(largest(most));
    for (int64_t t = from; t < to; t += LANES) {
        const vec e = vexp(load(scores + t) - top);
        store(scores + t, e);
        total += e;
    }
    return 1.0f / sum(total);
}

INLINE void add_near(const attention *a, float *scores, int64_t head, int64_t query, int64_t begin, int64_t end) {
    const float *near = a->near + head * (2 * a->reach + 1) + a->reach;
    for (int64_t t = begin; t < end; t++) {
        const int64_t apart = t - query;
        scores[t] += near[apart < -a->reach ? -a->reach : apart > a->reach ? a->reach : apart];
    }
}

static void one_head(const attention *a, int64_t text, int64_t head, scratch s) {
    const int64_t start = a->starts[text], length = a->starts[text + 1] - start, size = a->size;
    const int64_t group = head / (a->heads / a->kv_heads), wide = up(length, LANES), broad = up(size, LANES);
    const int64_t reach = a->window < 0 ? length : a->window;
    const float *q_bias = a->q_bias ? a->q_bias + head * size : 0, *v_bias = a->v_bias ? a->v_bias + group * size : 0;
    gather(a, start, length, group, s);
    for (int64_t first = 0; first < length; first += QUERIES) {
        const int64_t count = length - first < QUERIES ? length - first : QUERIES;
        for (int64_t i = 0; i < QUERIES; i++) { /* the last of them stand in for what is lacking */
            const int64_t token = start + first + (i < count ? i : count - 1);
            placed(a, s.queries + i * size, a->q + token * a->q_stride + head * size, q_bias, token, a->scale);
        }
        const int64_t low = first > reach ? first - reach : 0;
        const int64_t high = first + count + reach < length ? first + count + reach : length;
        const int64_t from = low / LANES * LANES, to = up(high, LANES);
        product(s.scores, wide, s.queries, size, s.keys, wide, 0, size, from, to);
        float inverse[QUERIES];
        for (int64_t i = 0; i < QUERIES; i++) {
            const int64_t query = first + (i < count ? i : count - 1);
            const int64_t begin = query > reach ? query - reach : 0;
            const int64_t end = query + reach < length ? query + reach + 1 : length;
            if (a->near) add_near(a, s.scores + i * wide, head, query, begin, end);
            inverse[i] = softmax(s.scores + i * wide, begin, end, from, to);
        }
        product(s.mixed, broad, s.scores, wide, s.values, broad, low, high, 0, broad);
        for (int64_t i = 0; i < count; i++) {
            float *out = a->out + (start + first + i) * a->out_stride + head * size;
            for (int64_t d = 0; d < size; d += LANES) {
                vec x = load(s.mixed + i * broad + d) * all(inverse[i]);
                if (v_bias) x += load_most(v_bias + d, size - d);
                store_most(out + d, x, size - d);
            }
        }
    }
}

/* The heads that fall to this thread of the team. */
static void attend_share(const attention *a) {
    int64_t longest = 0;
    for (int64_t t = 0; t < a->texts; t++) {
        const int64_t length = a->starts[t + 1] - a->starts[t];
        longest = length > longest ? length : longest;
    }
    const int64_t wide = up(longest, LANES), broad = up(a->size, LANES);
    scratch s;
    s.keys = malloc((size_t)(a->size * wide + wide * broad + QUERIES * (a->size + wide + broad)) * sizeof(float));
    s.values = s.keys + a->size * wide;
    s.queries = s.values + wide * broad;
    s.scores = s.queries + QUERIES * a->size;
    s.mixed = s.scores + QUERIES * wide;
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < a->texts * a->heads; task++) one_head(a, task / a->heads, task % a->heads, s);
    free(s.keys);
}

void attend_texts(const attention *a) {
    const int64_t tokens = a->starts[a->texts] - a->starts[0];
#pragma omp parallel if (tokens * a->heads * a->size > WORTH)
    attend_share(a);
}

/* ---- a whole block ---- */

enum { ROWS = LANES == 16 ? 12 : 6, PANEL = 2 * LANES, AHEAD = 8 }; /* rows and columns whose sums registers hold */

/* x · Wᵀ + bias. Columns of Wᵀ stand in panels of PANEL, [in, PANEL] each, the last one filled up with zeros. */
typedef struct {
    const float *panels, *bias;
    int64_t in, out;
} linear;

/* weight absent: no norm. */
typedef struct {
    const float *weight, *shift;
    int64_t centred;
    float eps, unit;
} norm;

typedef struct {
    linear project, out, gate, up, down; /* query, key and value are one; without panels there is no gate */
    norm attends_before, attends_after, attends_join, feeds_before, feeds_after, feeds_join;
    int64_t width, heads, kv_heads, size, window, kind, keeps_normed;
    float scale;
} block;

/* `room` has place for rows · (project.out + heads · size + 3 · width + 2 · up.out) numbers. */
typedef struct {
    const float *x;
    float *out, *room;
    const int64_t *starts;
    const float *turn, *near;
    int64_t texts, pairs, reach;
} passage;

int64_t panel(void) { return PANEL; }

/* `height` rows by one panel, of which `columns` columns count. */
INLINE void strip(
    const linear *w, const float *panel, const float *bias, const float *x, float *y, int64_t columns, int height
) {
    vec sums[ROWS][2];
    for (int c = 0; c < 2; c++) {
        const int64_t left = columns - c * LANES;
        const vec start = bias && left > 0 ? load_most(bias + c * LANES, left) : all(0.0f);
        for (int i = 0; i < height; i++) sums[i][c] = start;
    }
    for (int64_t d = 0; d < w->in; d++) {
        const vec one = load(panel + d * PANEL), other = load(panel + d * PANEL + LANES);
        __builtin_prefetch(panel + (d + AHEAD) * PANEL); /* threads begin anew at each panel: nothing foresees it */
        __builtin_prefetch(panel + (d + AHEAD) * PANEL + LANES);
        for (int i = 0; i < height; i++) {
            const vec factor = all(x[i * w->in + d]);
            sums[i][0] += factor * one;
            sums[i][1] += factor * other;
        }
    }
    for (int c = 0; c < 2 && c * LANES < columns; c++)
        for (int i = 0; i < height; i++) store_most(y + i * w->out + c * LANES, sums[i][c], columns - c * LANES);
}

/* The panels that fall to this thread of the team. Rows are cut into strips of about one height. */
static void times_share(const linear *w, const float *x, float *y, int64_t rows) {
    const int64_t strips = (rows + ROWS - 1) / ROWS;
#pragma omp for schedule(static)
    for (int64_t first = 0; first < w->out; first += PANEL) {
        const float *panel = w->panels + first * w->in, *bias = w->bias ? w->bias + first : 0;
        for (int64_t s = 0; s < strips; s++) {
            const int64_t begin = rows * s / strips, height = rows * (s + 1) / strips - begin;
            const float *from = x + begin * w->in;
            float *to = y + begin * w->out + first;
#define STRIP(n) case n: strip(w, panel, bias, from, to, w->out - first, n); break;
            switch (height) {
            STRIP(1) STRIP(2) STRIP(3) STRIP(4) STRIP(5) STRIP(6)
#if LANES == 16
            STRIP(7) STRIP(8) STRIP(9) STRIP(10) STRIP(11) STRIP(12)
#endif
            }
#undef STRIP
        }
    }
}

/* norm(x + y) */
static void add_share(const float *x, const float *y, const norm *n, float *out, int64_t rows, int64_t width) {
    const joint j = {
        .x = x, .y = y, .weight = n->weight, .shift = n->shift, .total = n->weight ? 0 : out,
        .normed = n->weight ? out : 0, .rows = rows, .width = width, .centred = n->centred, .eps = n->eps,
        .unit = n->unit,
    };
    join_share(&j);
}

void read_block(const block *b, const passage *p) {
    const int64_t rows = p->starts[p->texts] - p->starts[0], width = b->width, inner = b->heads * b->size;
    float *every = p->room, *mixed = every + rows * b->project.out, *made = mixed + rows * inner;
    float *read = made + rows * width, *stream = read + rows * width, *fed = stream + rows * width;
    float *gate = b->gate.panels ? fed + rows * b->up.out : 0;
    const activation f = {
        .gate = gate ? gate : fed, .up = gate ? fed : 0, .rows = rows, .width = b->up.out, .kind = b->kind,
    };
    const attention a = {
        .q = every, .k = every + inner, .v = every + inner + b->kv_heads * b->size, .out = mixed, .turn = p->turn,
        .near = p->near, .starts = p->starts, .texts = p->texts, .heads = b->heads, .kv_heads = b->kv_heads,
        .size = b->size, .q_stride = b->project.out, .k_stride = b->project.out, .v_stride = b->project.out,
        .out_stride = inner, .pairs = p->pairs, .reach = p->reach, .window = b->window, .scale = b->scale,
    };
#pragma omp parallel if (rows * width > WORTH / 32)
    {
        const float *x = p->x;
        if (b->attends_before.weight) add_share(x, 0, &b->attends_before, read, rows, width), x = read;
        times_share(&b->project, x, every, rows);
        attend_share(&a);
        times_share(&b->out, mixed, made, rows);
        if (b->attends_after.weight) add_share(made, 0, &b->attends_after, made, rows, width);
        add_share(b->keeps_normed ? x : p->x, made, &b->attends_join, stream, rows, width);
        x = stream;
        if (b->feeds_before.weight) add_share(x, 0, &b->feeds_before, read, rows, width), x = read;
        if (gate) times_share(&b->gate, x, gate, rows);
        times_share(&b->up, x, fed, rows);
        activate_share(&f);
        times_share(&b->down, f.gate, made, rows);
        if (b->feeds_after.weight) add_share(made, 0, &b->feeds_after, made, rows, width);
        add_share(b->keeps_normed ? x : stream, made, &b->feeds_join, p->out, rows, width);
    }
}
