/* Vectors as wide as the processor's registers, and the functions that activations are made of.
 *
 * GCC's and Clang's vector types: +, * and comparisons act on all lanes. Every function is within a few units in the
 * last place of float32.
 */
#ifndef VARIORUM_VECTOR_H
#define VARIORUM_VECTOR_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float vec_unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *p) { return *(const vec_unaligned *)p; }

INLINE void store(float *p, vec x) { *(vec_unaligned *)p = x; }

INLINE vec all(float x) { return x - (vec){}; }

/* The first n < LANES numbers at p, zeros behind them. */
INLINE vec load_some(const float *p, int64_t n) {
    vec x = {};
    memcpy(&x, p, (size_t)n * sizeof(float));
    return x;
}

INLINE void store_some(float *p, vec x, int64_t n) { memcpy(p, &x, (size_t)n * sizeof(float)); }

/* LANES bytes as numbers. */
INLINE vec load_bytes(const int8_t *p) {
#ifdef __AVX512F__
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
#else
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#endif
}

INLINE float sum(vec x) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)x);
#else
    __m256 v = (__m256)x;
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#endif
}

INLINE vec pick(ivec mask, vec yes, vec no) { return (vec)(((ivec)yes & mask) | ((ivec)no & ~mask)); }

/* Of each lane, the larger or the smaller; b where either is no number. */
#ifdef __AVX512F__
INLINE vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }

INLINE vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }

INLINE float largest(vec x) { return _mm512_reduce_max_ps((__m512)x); }
#else
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }

INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }

INLINE float largest(vec x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
#endif

/* e^x; 0 below -87.7, where the power of two is 2^-127, whose bits are none; and not above e^88.3. */
INLINE vec vexp(vec x) {
    x = larger(all(-88.0f), smaller(all(88.3f), x));
    const vec magic = all(12582912.0f); /* 1.5 · 2^23: adding it rounds to an integer */
    const vec n = (x * all(1.44269504f) + magic) - magic;
    vec r = x - n * all(0.693359375f);
    r = r + n * all(2.12194440e-4f);
    /* (e^r - 1 - r) / r² on |r| <= ln(2)/2, a Chebyshev interpolation */
    vec p = all(1.98910804e-4f);
    p = p * r + all(1.39337307e-3f);
    p = p * r + all(8.33331084e-3f);
    p = p * r + all(4.16664642e-2f);
    p = p * r + all(1.66666667e-1f);
    p = p * r + all(5.00000001e-1f);
    p = p * (r * r) + r + all(1.0f);
    const ivec power = (__builtin_convertvector(n, ivec) + 127) << 23;
    return p * (vec)power;
}

INLINE vec vsigmoid(vec x) { return all(1.0f) / (all(1.0f) + vexp(-x)); }

/* x·Φ(x), as max(x, 0) - |x|/2 · erfc(|x|/√2), in which nothing cancels. */
INLINE vec vgelu(vec x) {
    const vec size = (vec)((ivec)x & 0x7fffffff), z = size * all(0.70710678f);
    const vec t = all(1.0f) / (all(1.0f) + all(0.5f) * z);
    /* e^(z²)·erfc(z) in t, a Chebyshev interpolation */
    vec p = all(-2.57350151e-2f);
    p = p * t + all(2.14317969e-1f);
    p = p * t + all(-6.14717221e-1f);
    p = p * t + all(6.75716210e-1f);
    p = p * t + all(-1.50153596e-1f);
    p = p * t + all(3.55864259e-1f);
    p = p * t + all(2.60350056e-1f);
    p = p * t + all(2.84465471e-1f);
    p = p * t + all(-1.08085936e-4f);
    return larger(x, all(0.0f)) - all(0.5f) * size * p * vexp(-z * z);
}

INLINE vec vgelu_tanh(vec x) { return x * vsigmoid(all(1.59576912f) * (x + all(0.044715f) * x * x * x)); }

/* Numbered as in products.py. */
enum activation { NOTHING, RELU, GELU, GELU_TANH, SILU, TANH };

INLINE vec activate(vec x, int64_t kind) {
    switch (kind) {
    case RELU: return larger(x, all(0.0f));
    case GELU: return vgelu(x);
    case GELU_TANH: return vgelu_tanh(x);
    case SILU: return x * vsigmoid(x);
    case TANH:
        for (int i = 0; i < LANES; i++) x[i] = tanhf(x[i]);
        return x;
    default: return x;
    }
}

#endif
