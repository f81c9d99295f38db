//! The vector of plain Rust: eight floats the compiler vectorises as it can.

use super::Vector;
use crate::bf16::round;

/// Eight floats.
#[derive(Clone, Copy)]
pub(crate) struct Lanes8([f32; 8]);

impl Lanes8 {
    #[inline(always)]
    fn each(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], b.0[i])))
    }
}

impl Vector for Lanes8 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for eight readable floats; the read asks for no alignment.
        Self(unsafe { p.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for eight writable floats; the write asks for no alignment.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; 8])
    }
    #[inline(always)]
    unsafe fn load_pairs(p: *const u16) -> (Self, Self) {
        // SAFETY: the caller vouches for sixteen readable numbers; the read asks for no alignment.
        let pairs = unsafe { p.cast::<[[u16; 2]; 8]>().read_unaligned() };
        let half =
            |which: usize| Self(std::array::from_fn(|i| f32::from_bits(u32::from(pairs[i][which]) << 16)));
        (half(0), half(1))
    }
    #[inline(always)]
    unsafe fn splat_pair(p: *const u16) -> (Self, Self) {
        // SAFETY: the caller vouches for two readable numbers; the read asks for no alignment.
        let pair = unsafe { p.cast::<[u16; 2]>().read_unaligned() };
        let half = |which: usize| Self::splat(f32::from_bits(u32::from(pair[which]) << 16));
        (half(0), half(1))
    }
    #[inline(always)]
    unsafe fn store_rounded(self, p: *mut u16) {
        // SAFETY: the caller vouches for eight writable numbers; the write asks for no alignment.
        unsafe { p.cast::<[u16; 8]>().write_unaligned(self.0.map(round)) }
    }
    #[inline(always)]
    unsafe fn pair(a: *const u16, b: *const u16) -> Self {
        // SAFETY: the caller vouches for eight readable numbers at both; the reads ask for no alignment.
        let [a, b] = unsafe { [a, b].map(|p| p.cast::<[u16; 8]>().read_unaligned()) };
        Self(std::array::from_fn(|i| f32::from_bits(u32::from(a[i]) | u32::from(b[i]) << 16)))
    }
    #[inline(always)]
    fn zip(self, b: Self) -> (Self, Self) {
        let half = |from: usize| {
            Self(std::array::from_fn(|i| if i % 2 == 0 { self.0[from + i / 2] } else { b.0[from + i / 2] }))
        };
        (half(0), half(4))
    }
    #[inline(always)]
    fn first(self) -> f32 {
        self.0[0]
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.each(b, |x, y| x + y)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.each(b, |x, y| x - y)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.each(b, |x, y| x * y)
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        // Two roundings: `f32::mul_add` is a slow library call where the CPU has no such instruction.
        self.mul(b).add(c)
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        self.each(b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    fn if_equal(self, b: Self, yes: Self, no: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] == b.0[i] { yes.0[i] } else { no.0[i] }))
    }
    #[inline(always)]
    fn if_positive(self, yes: Self) -> Self {
        self.each(yes, |x, y| if x > 0.0 { y } else { 0.0 })
    }
}
