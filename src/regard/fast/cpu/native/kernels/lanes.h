// Sixteen numbers at a time: one register where there is AVX-512, two where there is AVX2.
//
// Everything the kernels ask of a processor is here, tiles aside (`tiles.h`), and nothing else names an instruction.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

constexpr int LANES = 16;

// A bfloat16: the upper half of a float, rounded to even.
struct Half {
    uint16_t bits;

    Half() = default;
    explicit Half(float x) {
        uint32_t all;
        std::memcpy(&all, &x, 4);
        bits = x == x ? (uint16_t)((all + 0x7fff + (all >> 16 & 1)) >> 16) : 0x7fc0;
    }
    explicit operator float() const {
        uint32_t all = (uint32_t)bits << 16;
        float x;
        std::memcpy(&x, &all, 4);
        return x;
    }
};

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define REGARD_WIDE 1
#endif

#ifdef REGARD_WIDE

struct Floats {
    __m512 v;
};
struct Ints {
    __m512i v;
};

// Keep what was loaded in its register: of few sums, compilers would rather load it again for each.
static inline void hold(Floats& x) { asm("" : "+v"(x.v)); }
static inline void hold(Ints& x) { asm("" : "+v"(x.v)); }

static inline __mmask16 first(int n) { return (__mmask16)((1u << n) - 1); }

static inline Floats every(float x) { return {_mm512_set1_ps(x)}; }
static inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
static inline Floats load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
static inline Floats load(const Half* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16))};
}
static inline void store(float* p, Floats x) { _mm512_storeu_ps(p, x.v); }
#ifdef __AVX512BF16__
static inline void store(Half* p, Floats x) { _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(x.v)); }
// Side by side in four bytes each: of a, then of b.
static inline void store_pairs(Half* p, Floats a, Floats b) {
    const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a.v));
    const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b.v));
    _mm512_storeu_si512(p, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}
#endif
// Sixteen rows of sixteen, turned: column i of `from` becomes row i of `to`. Strides are in numbers of four bytes.
static inline void turn_sixteen(const float* from, int64_t stride, float* to, int64_t to_stride) {
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_si512(from + i * stride);
    for (int i = 0; i < 8; i++) {
        b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) {
            a[4 * i + 2 * j] = _mm512_unpacklo_epi64(b[4 * i + j], b[4 * i + 2 + j]);
            a[4 * i + 2 * j + 1] = _mm512_unpackhi_epi64(b[4 * i + j], b[4 * i + 2 + j]);
        }
    for (int j = 0; j < 4; j++) {  // columns j, 4 + j, 8 + j, 12 + j
        const __m512i low = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88), odd = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xDD);
        const __m512i high = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
        const __m512i last = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xDD);
        _mm512_storeu_si512(to + j * to_stride, _mm512_shuffle_i32x4(low, high, 0x88));
        _mm512_storeu_si512(to + (4 + j) * to_stride, _mm512_shuffle_i32x4(odd, last, 0x88));
        _mm512_storeu_si512(to + (8 + j) * to_stride, _mm512_shuffle_i32x4(low, high, 0xDD));
        _mm512_storeu_si512(to + (12 + j) * to_stride, _mm512_shuffle_i32x4(odd, last, 0xDD));
    }
}
static inline void store_first(float* p, Floats x, int n) { _mm512_mask_storeu_ps(p, first(n), x.v); }
static inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
static inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
static inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
static inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  // a · b + c
static inline Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
static inline Floats larger(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }  // b where either is no number
static inline Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }  // the same
static inline Floats size_of(Floats a) { return {_mm512_abs_ps(a.v)}; }
static inline Floats rounded(Floats a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
static inline Floats times_power(Floats a, Floats n) { return {_mm512_scalef_ps(a.v, n.v)}; }  // a · 2ⁿ, n whole
// A bit for each lane in which a is larger than b, or either is not a number.
static inline unsigned above(Floats a, Floats b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_NLE_UQ); }
static inline float sum(Floats a) { return _mm512_reduce_add_ps(a.v); }
static inline float largest(Floats a) { return _mm512_reduce_max_ps(a.v); }
// The sums of sixteen registers, side by side: halves are added and interleaved until one register holds them all.
static inline Floats sums_of(const Floats* x) {
    __m512 two[8], four[4];
    for (int i = 0; i < 8; i++)
        two[i] = _mm512_add_ps(_mm512_unpacklo_ps(x[2 * i].v, x[2 * i + 1].v),
                               _mm512_unpackhi_ps(x[2 * i].v, x[2 * i + 1].v));
    for (int i = 0; i < 4; i++) {
        __m512d a = _mm512_castps_pd(two[2 * i]), b = _mm512_castps_pd(two[2 * i + 1]);
        four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    auto fold = [](__m512 a, __m512 b) {
        return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    };
    return {fold(fold(four[0], four[1]), fold(four[2], four[3]))};
}

// Sixteen registers of sixteen numbers, rows and columns exchanged.
static inline void transpose(Floats* x) {
    __m512 two[16], four[16];
    for (int i = 0; i < 8; i++) {
        two[2 * i] = _mm512_unpacklo_ps(x[2 * i].v, x[2 * i + 1].v);
        two[2 * i + 1] = _mm512_unpackhi_ps(x[2 * i].v, x[2 * i + 1].v);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(two[i + j]), b = _mm512_castps_pd(two[i + 2 + j]);
            four[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            four[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    for (int j = 0; j < 4; j++) {  // of rows 0-3, 4-7, 8-11 and 12-15: columns j, j + 4, j + 8, j + 12
        __m512 a = _mm512_shuffle_f32x4(four[j], four[4 + j], 0x88), b = _mm512_shuffle_f32x4(four[j], four[4 + j], 0xDD);
        __m512 c = _mm512_shuffle_f32x4(four[8 + j], four[12 + j], 0x88), d = _mm512_shuffle_f32x4(four[8 + j], four[12 + j], 0xDD);
        x[j].v = _mm512_shuffle_f32x4(a, c, 0x88);
        x[8 + j].v = _mm512_shuffle_f32x4(a, c, 0xDD);
        x[4 + j].v = _mm512_shuffle_f32x4(b, d, 0x88);
        x[12 + j].v = _mm512_shuffle_f32x4(b, d, 0xDD);
    }
}

// `scale` where one of n draws is at least this, and 0 elsewhere.
static inline Floats kept_or_zero(const int16_t* draws, int n, int least, float scale) {
    __m512i wide = _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(first(n), draws));
    return {_mm512_maskz_mov_ps(_mm512_cmp_epi32_mask(wide, _mm512_set1_epi32(least), _MM_CMPINT_NLT), _mm512_set1_ps(scale))};
}
static inline Ints no_ints() { return {_mm512_setzero_si512()}; }
static inline Ints load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
static inline Ints load_bytes(const int8_t* p) { return {_mm512_loadu_si512(p)}; }
static inline Ints every_four(const uint8_t* p) {  // the same four bytes in every lane
    int32_t four;
    std::memcpy(&four, p, 4);
    return {_mm512_set1_epi32(four)};
}
static inline Ints every_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
static inline Ints operator-(Ints a, Ints b) { return {_mm512_sub_epi32(a.v, b.v)}; }
static inline Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
static inline int32_t sum(Ints a) { return _mm512_reduce_add_epi32(a.v); }
static inline Ints whole(Floats x) { return {_mm512_cvtps_epi32(x.v)}; }
static inline void store_signed(int8_t* p, Ints x) { _mm_storeu_si128((__m128i*)p, _mm512_cvtsepi32_epi8(x.v)); }
static inline Ints low_nibbles(Ints a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
static inline Ints high_nibbles(Ints a) { return low_nibbles({_mm512_srli_epi16(a.v, 4)}); }
static inline Floats load_half_floats(const uint16_t* p) {  // IEEE's, of 16 bits
    return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))};
}
// Bytes of even and of odd places, as numbers of 16 bits with a sign, multiplied and added up: nothing overflows.
static inline Ints dot_signed(Ints sums, Ints a, Ints b) {
    const auto odd = [](__m512i x) { return _mm512_srai_epi16(x, 8); };
    const auto even = [&](__m512i x) { return odd(_mm512_slli_epi16(x, 8)); };
    __m512i products = _mm512_add_epi32(_mm512_madd_epi16(even(a.v), even(b.v)), _mm512_madd_epi16(odd(a.v), odd(b.v)));
    return {_mm512_add_epi32(sums.v, products)};
}
static inline Ints flip_signs(Ints a) { return {_mm512_xor_si512(a.v, _mm512_set1_epi8((char)0x80))}; }
static inline Floats as_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
// Whole numbers of 0 to 255 from floats, with what is beyond brought to the ends.
static inline void store_bytes(uint8_t* p, Floats x, int n, int zero) {
    __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(x.v), _mm512_set1_epi32(zero));
    whole = _mm512_max_epi32(whole, _mm512_setzero_si512());
    _mm_mask_storeu_epi8(p, first(n), _mm512_cvtusepi32_epi8(whole));
}

#ifdef __AVX512VNNI__
#define REGARD_DOTS 1
constexpr int BITS = 8;  // of a rounded input
static inline Ints dot_four(Ints sums, Ints inputs, Ints weights) {
    return {_mm512_dpbusd_epi32(sums.v, inputs.v, weights.v)};
}
#else
constexpr int BITS = 7;  // pairs of products are added in 16 bits, which only these cannot overflow
static inline Ints dot_four(Ints sums, Ints inputs, Ints weights) {
    __m512i pairs = _mm512_maddubs_epi16(inputs.v, weights.v);
    return {_mm512_add_epi32(sums.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}
#endif

#elif defined(__AVX2__) && defined(__FMA__)

struct Floats {
    __m256 a, b;
};
struct Ints {
    __m256i a, b;
};

// Keep what was loaded in its registers: of few sums, compilers would rather load it again for each.
static inline void hold(Floats& x) { asm("" : "+x"(x.a), "+x"(x.b)); }
static inline void hold(Ints& x) { asm("" : "+x"(x.a), "+x"(x.b)); }

static inline __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline Floats every(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline Floats load(const Half* p) {
    const auto eight = [](const Half* from) {
        __m128i halves = _mm_loadu_si128((const __m128i*)from);
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    };
    return {eight(p), eight(p + 8)};
}
static inline Floats load_first(const float* p, int n) {
    return {_mm256_maskload_ps(p, first(n)), _mm256_maskload_ps(p + 8, first(n - 8))};
}
static inline void store(float* p, Floats x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline void turn_sixteen(const float* from, int64_t stride, float* to, int64_t to_stride) {
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) to[j * to_stride + i] = from[i * stride + j];
}
static inline void store_first(float* p, Floats x, int n) {
    _mm256_maskstore_ps(p, first(n), x.a);
    _mm256_maskstore_ps(p + 8, first(n - 8), x.b);
}
static inline Floats operator+(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline Floats operator-(Floats x, Floats y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
static inline Floats operator*(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline Floats fma(Floats x, Floats y, Floats z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline Floats operator/(Floats x, Floats y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
static inline Floats larger(Floats x, Floats y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
static inline Floats smaller(Floats x, Floats y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
static inline Floats size_of(Floats x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline Floats rounded(Floats x) {
    constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, how), _mm256_round_ps(x.b, how)};
}
static inline __m256 times_power(__m256 x, __m256 n) {  // in two steps, so that the smallest results stay exact
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    __m256i other = _mm256_sub_epi32(whole, half);
    x = _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(other, bias), 23)));
}
static inline Floats times_power(Floats x, Floats n) { return {times_power(x.a, n.a), times_power(x.b, n.b)}; }
static inline unsigned above(Floats x, Floats y) {
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_NLE_UQ)) |
           (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_NLE_UQ)) << 8;
}
static inline float sum(Floats x) {
    __m256 both = _mm256_add_ps(x.a, x.b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
static inline float largest(Floats x) {
    __m256 both = _mm256_max_ps(x.a, x.b);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
static inline Floats sums_of(const Floats* x) {
    float sums[LANES];
    for (int i = 0; i < LANES; i++) sums[i] = sum(x[i]);
    return load(sums);
}

static inline void transpose(Floats* x) {
    float numbers[LANES][LANES], turned[LANES][LANES];
    for (int i = 0; i < LANES; i++) store(numbers[i], x[i]);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) turned[j][i] = numbers[i][j];
    for (int i = 0; i < LANES; i++) x[i] = load(turned[i]);
}

static inline Floats kept_or_zero(const int16_t* draws, int n, int least, float scale) {
    float numbers[LANES] = {};
    for (int i = 0; i < n; i++) numbers[i] = draws[i] >= least ? scale : 0.0f;
    return load(numbers);
}
static inline Ints no_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline Ints load(const int32_t* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 8))};
}
static inline Ints load_bytes(const int8_t* p) { return load((const int32_t*)p); }
static inline Ints every_four(const uint8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return {_mm256_set1_epi32(four), _mm256_set1_epi32(four)};
}
static inline Ints every_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline Ints operator-(Ints x, Ints y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
static inline Ints operator+(Ints x, Ints y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
static inline int32_t sum(Ints x) {
    __m256i both = _mm256_add_epi32(x.a, x.b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}
static inline Ints whole(Floats x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
static inline void store_signed(int8_t* p, Ints x) {
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i*)p, bytes);
}
static inline Ints low_nibbles(Ints x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
static inline Ints high_nibbles(Ints x) { return low_nibbles({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)}); }
static inline Floats load_half_floats(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
static inline __m256i dot_signed(__m256i sums, __m256i a, __m256i b) {
    const auto odd = [](__m256i x) { return _mm256_srai_epi16(x, 8); };
    const auto even = [&](__m256i x) { return odd(_mm256_slli_epi16(x, 8)); };
    __m256i products = _mm256_add_epi32(_mm256_madd_epi16(even(a), even(b)), _mm256_madd_epi16(odd(a), odd(b)));
    return _mm256_add_epi32(sums, products);
}
static inline Ints dot_signed(Ints sums, Ints x, Ints y) {
    return {dot_signed(sums.a, x.a, y.a), dot_signed(sums.b, x.b, y.b)};
}
static inline Ints flip_signs(Ints x) {
    const __m256i signs = _mm256_set1_epi8((char)0x80);
    return {_mm256_xor_si256(x.a, signs), _mm256_xor_si256(x.b, signs)};
}
static inline Floats as_floats(Ints x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
static inline void store_bytes(uint8_t* p, Floats x, int n, int zero) {
    const __m256i from = _mm256_set1_epi32(zero);
    __m256i a = _mm256_add_epi32(_mm256_cvtps_epi32(x.a), from), b = _mm256_add_epi32(_mm256_cvtps_epi32(x.b), from);
    __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
    __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    alignas(16) uint8_t all[LANES];
    _mm_store_si128((__m128i*)all, bytes);
    std::memcpy(p, all, n);
}

#ifdef __AVXVNNI__
#define REGARD_DOTS 1
constexpr int BITS = 8;
static inline Ints dot_four(Ints sums, Ints inputs, Ints weights) {
    return {_mm256_dpbusd_avx_epi32(sums.a, inputs.a, weights.a), _mm256_dpbusd_avx_epi32(sums.b, inputs.b, weights.b)};
}
#else
constexpr int BITS = 7;
static inline __m256i dot_four(__m256i sums, __m256i inputs, __m256i weights) {
    __m256i pairs = _mm256_maddubs_epi16(inputs, weights);
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static inline Ints dot_four(Ints sums, Ints inputs, Ints weights) {
    return {dot_four(sums.a, inputs.a, weights.a), dot_four(sums.b, inputs.b, weights.b)};
}
#endif

#else
#error "the kernels need a processor with AVX2 and FMA"
#endif

static inline Floats load_first(const Half* p, int n) {
    float numbers[LANES] = {};
    for (int i = 0; i < n; i++) numbers[i] = (float)p[i];
    return load(numbers);
}

template <class Number>
static inline Floats some(const Number* p, int n) {
    return n >= LANES ? load(p) : load_first(p, n);
}
static inline void put(float* p, Floats x, int n) { n >= LANES ? store(p, x) : store_first(p, x, n); }
static inline Floats first_or(Floats x, int n, float rest) {  // the first n, and one number for the others
#ifdef REGARD_WIDE
    return {_mm512_mask_blend_ps(first(n), _mm512_set1_ps(rest), x.v)};
#else
    float numbers[LANES];
    store(numbers, x);
    for (int i = n; i < LANES; i++) numbers[i] = rest;
    return load(numbers);
#endif
}
static inline Floats where_above_zero(Floats x, Floats y) {  // y where x > 0, and 0 elsewhere
#ifdef REGARD_WIDE
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_GT_OQ), y.v)};
#else
    const auto half = [](__m256 x, __m256 y) { return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ), y); };
    return {half(x.a, y.a), half(x.b, y.b)};
#endif
}
static inline void put(Half* p, Floats x, int n) {
#ifdef __AVX512BF16__
    _mm256_mask_storeu_epi16(p, first(n >= LANES ? LANES : n), (__m256i)_mm512_cvtneps_pbh(x.v));
#else
    float numbers[LANES];
    store(numbers, x);
    for (int i = 0; i < n && i < LANES; i++) p[i] = Half(numbers[i]);
#endif
}

// eˣ for x ≤ 0 or little above: x = n · ln 2 + r, and a polynomial for eʳ; wrong in the last bit or two at most.
static inline Floats exponential(Floats x) {
    x = larger(every(-87.0f), x);
    Floats n = rounded(x * every(1.44269504f));
    Floats r = fma(n, every(-0.693359375f), x);
    r = fma(n, every(2.12194440e-4f), r);
    Floats p = every(1.9875691500e-4f);
    p = fma(p, r, every(1.3981999507e-3f));
    p = fma(p, r, every(8.3334519073e-3f));
    p = fma(p, r, every(4.1665795894e-2f));
    p = fma(p, r, every(1.6666665459e-1f));
    p = fma(p, r, every(5.0000001201e-1f));
    p = fma(p, r * r, r + every(1.0f));
    return times_power(p, n);
}

// x / (1 + e⁻ʸ)
static inline Floats gated(Floats x, Floats y) {
    return x / (every(1.0f) + exponential(every(0.0f) - larger(every(-80.0f), y)));
}

static inline Floats silu(Floats x) { return gated(x, x); }

// x · (1 + tanh u) / 2 = x · σ(2u), u = √(2/π) (x + 0.044715 x³)
static inline Floats gelu_tanh(Floats x) {
    return gated(x, x * fma(x * x, every(0.0713548163f), every(1.59576912f)));
}

// x · Φ(x). Φ(x) − ½ is odd: x times a polynomial of x², here in t = 2 x²/a² − 1 up to a, where Φ is 1 but for 10⁻⁷.
static inline Floats gelu(Floats x) {
    constexpr float MOST = 5.2f, TERMS[] = {0.00020638064f, -0.00056580849f, 0.000589269068f, -0.00096865575f,
                                            0.00267515879f, -0.00507787397f, 0.00800330324f,  -0.0123480587f,
                                            0.0181357145f,  -0.0247647289f,  0.0319621092f,   -0.0399252678f,
                                            0.0500261188f,  -0.0677438092f,  0.135949978f};
    const Floats above = larger(every(-MOST), x), near = smaller(every(MOST), above);
    const Floats t = fma(near * near, every(2.0f / (MOST * MOST)), every(-1.0f));
    Floats p = every(TERMS[0]);
    for (int i = 1; i < 15; i++) p = fma(p, t, every(TERMS[i]));
    return above * fma(near, p, every(0.5f));
}
