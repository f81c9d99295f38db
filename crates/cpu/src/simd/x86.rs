//! The vectors of x86-64: AVX2 with FMA (8 floats) and AVX-512 (16 floats).

use std::arch::x86_64::*;

use super::{Kernel, Vector};

/// Runs a kernel with AVX2 and FMA switched on.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}

/// Runs a kernel with AVX-512 switched on.
#[target_feature(enable = "avx512f,avx2,fma")]
pub(crate) fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx512>()
}

/// Eight floats.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256);

/// Sixteen floats.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

// SAFETY of the blocks below: values of these types are made and used only in kernels started by `run_avx2` and
// `run_avx512`, which `Isa::run` calls only when the CPU has the instructions; pointers are the callers' promise.

impl Avx2 {
    /// The lower and the upper half of each lane as bf16 numbers: a shift or a mask makes an f32 of them.
    #[inline(always)]
    fn halves(pairs: __m256i) -> (Self, Self) {
        // SAFETY: the instructions exist, see above.
        unsafe {
            let upper = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff_0000_u32 as i32));
            (Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs))), Self(_mm256_castsi256_ps(upper)))
        }
    }
}

impl Avx512 {
    /// As for [`Avx2`].
    #[inline(always)]
    fn halves(pairs: __m512i) -> (Self, Self) {
        // SAFETY: the instructions exist, see above.
        unsafe {
            let upper = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            (Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs))), Self(_mm512_castsi512_ps(upper)))
        }
    }
}

impl Vector for Avx2 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for eight readable floats.
        Self(unsafe { _mm256_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for eight writable floats.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm256_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load_pairs(p: *const u16) -> (Self, Self) {
        // SAFETY: the caller vouches for 16 readable numbers.
        Self::halves(unsafe { _mm256_loadu_si256(p.cast()) })
    }
    #[inline(always)]
    unsafe fn splat_pair(p: *const u16) -> (Self, Self) {
        // SAFETY: the caller vouches for two readable numbers; the read asks for no alignment.
        Self::halves(unsafe { _mm256_set1_epi32(p.cast::<i32>().read_unaligned()) })
    }
    #[inline(always)]
    unsafe fn store_rounded(self, p: *mut u16) {
        // SAFETY: the instructions exist, see above; the caller vouches for eight writable numbers.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let nearest = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0));
            let upper = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(nearest, quiet, nan));
            // Packing works in halves of 128 bits: the wanted quarters are the first and the third.
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(upper, upper));
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    unsafe fn pair(a: *const u16, b: *const u16) -> Self {
        // SAFETY: the instructions exist, see above; the caller vouches for eight readable numbers at both.
        unsafe {
            let a = _mm256_cvtepu16_epi32(_mm_loadu_si128(a.cast()));
            let b = _mm256_cvtepu16_epi32(_mm_loadu_si128(b.cast()));
            Self(_mm256_castsi256_ps(_mm256_or_si256(a, _mm256_slli_epi32::<16>(b))))
        }
    }
    #[inline(always)]
    fn zip(self, b: Self) -> (Self, Self) {
        // SAFETY: the instructions exist, see above. Unpacking works in halves of 128 bits.
        unsafe {
            let (low, high) = (_mm256_unpacklo_ps(self.0, b.0), _mm256_unpackhi_ps(self.0, b.0));
            let lower = _mm256_permute2f128_ps::<0x20>(low, high);
            (Self(lower), Self(_mm256_permute2f128_ps::<0x31>(low, high)))
        }
    }
    #[inline(always)]
    fn first(self) -> f32 {
        // SAFETY: the instruction exists, see above.
        unsafe { _mm256_cvtss_f32(self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm256_add_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm256_sub_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm256_mul_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above. It returns its second operand when either is NaN.
        Self(unsafe { _mm256_max_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn if_equal(self, b: Self, yes: Self, no: Self) -> Self {
        // SAFETY: the instructions exist, see above.
        Self(unsafe { _mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, b.0)) })
    }
    #[inline(always)]
    fn if_positive(self, yes: Self) -> Self {
        // SAFETY: the instructions exist, see above.
        Self(unsafe { _mm256_and_ps(yes.0, _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, _mm256_setzero_ps())) })
    }
}

impl Vector for Avx512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for sixteen readable floats.
        Self(unsafe { _mm512_loadu_ps(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for sixteen writable floats.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn load_pairs(p: *const u16) -> (Self, Self) {
        // SAFETY: the caller vouches for 32 readable numbers.
        Self::halves(unsafe { _mm512_loadu_si512(p.cast()) })
    }
    #[inline(always)]
    unsafe fn splat_pair(p: *const u16) -> (Self, Self) {
        // SAFETY: the caller vouches for two readable numbers; the read asks for no alignment.
        Self::halves(unsafe { _mm512_set1_epi32(p.cast::<i32>().read_unaligned()) })
    }
    #[inline(always)]
    unsafe fn store_rounded(self, p: *mut u16) {
        // SAFETY: the instructions exist, see above; the caller vouches for sixteen writable numbers.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let nearest = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
            let value = _mm512_mask_or_epi32(nearest, nan, bits, _mm512_set1_epi32(0x40_0000));
            let packed = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(value));
            _mm256_storeu_si256(p.cast(), packed);
        }
    }
    #[inline(always)]
    unsafe fn pair(a: *const u16, b: *const u16) -> Self {
        // SAFETY: the instructions exist, see above; the caller vouches for sixteen readable numbers at both.
        unsafe {
            let a = _mm512_cvtepu16_epi32(_mm256_loadu_si256(a.cast()));
            let b = _mm512_cvtepu16_epi32(_mm256_loadu_si256(b.cast()));
            Self(_mm512_castsi512_ps(_mm512_or_si512(a, _mm512_slli_epi32::<16>(b))))
        }
    }
    #[inline(always)]
    fn zip(self, b: Self) -> (Self, Self) {
        // SAFETY: the instructions exist, see above. Lanes of `b` have numbers from 16.
        unsafe {
            let lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let upper = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            let half = |order| Self(_mm512_permutex2var_ps(self.0, order, b.0));
            (half(lower), half(upper))
        }
    }
    #[inline(always)]
    fn first(self) -> f32 {
        // SAFETY: the instruction exists, see above.
        unsafe { _mm512_cvtss_f32(self.0) }
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm512_add_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm512_sub_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm512_mul_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // SAFETY: the instruction exists, see above.
        Self(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        // SAFETY: the instruction exists, see above. It returns its second operand when either is NaN.
        Self(unsafe { _mm512_max_ps(self.0, b.0) })
    }
    #[inline(always)]
    fn if_equal(self, b: Self, yes: Self, no: Self) -> Self {
        // SAFETY: the instructions exist, see above.
        Self(unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, b.0), no.0, yes.0) })
    }
    #[inline(always)]
    fn if_positive(self, yes: Self) -> Self {
        // SAFETY: the instructions exist, see above.
        Self(unsafe {
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, _mm512_setzero_ps()), yes.0)
        })
    }
}
