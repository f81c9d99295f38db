//! Which vector instructions run a kernel: one generic source, one variant for each instruction set.
#![allow(unsafe_code)]

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

/// An instruction set the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The widest instruction set of this CPU.
    pub fn detect() -> Self {
        Self::available()[0]
    }

    /// Plain Rust without any explicit vector instruction.
    pub fn portable() -> Self {
        Self(Set::Portable)
    }

    /// Every instruction set this CPU can run, the widest first.
    pub fn available() -> Vec<Self> {
        let mut sets = Vec::with_capacity(3);
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                sets.push(Self(Set::Avx512));
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Self(Set::Avx2));
            }
        }
        sets.push(Self::portable());
        sets
    }

    /// The name people know it by.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "AVX2+FMA",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "AVX-512",
        }
    }

    /// Floats in one vector.
    pub(crate) fn lanes(self) -> usize {
        match self.0 {
            Set::Portable => portable::Lanes8::LANES,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => x86::Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => x86::Avx512::LANES,
        }
    }

    /// Runs `kernel` compiled for this instruction set.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Set::Portable => kernel.run::<portable::Lanes8>(),
            // SAFETY: an `Isa` of this value is only made by `available`, after the CPU said it has the instructions.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { x86::run_avx2(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { x86::run_avx512(kernel) },
        }
    }
}

/// Code generic over the vector type. `run` must be `#[inline(always)]`, and so must all it calls with `V`.
pub(crate) trait Kernel {
    /// What it returns.
    type Output;
    /// Does the work.
    fn run<V: Vector>(self) -> Self::Output;
}

/// A vector of `LANES` floats. Its values live only below [`Isa::run`], which knows that the CPU has the instructions.
pub(crate) trait Vector: Copy {
    /// Floats in a vector.
    const LANES: usize;

    /// # Safety
    /// `LANES` floats must be readable at `p`.
    unsafe fn load(p: *const f32) -> Self;
    /// # Safety
    /// `LANES` floats must be writable at `p`.
    unsafe fn store(self, p: *mut f32);
    fn splat(x: f32) -> Self;
    /// The first and the second of each of `LANES` pairs of bf16 numbers.
    ///
    /// # Safety
    /// 2·`LANES` numbers must be readable at `p`.
    unsafe fn load_pairs(p: *const u16) -> (Self, Self);
    /// The first and the second of one pair of bf16 numbers, in every lane.
    ///
    /// # Safety
    /// Two numbers must be readable at `p`.
    unsafe fn splat_pair(p: *const u16) -> (Self, Self);
    /// Stores the lanes as bf16 numbers, rounded as `bf16::round` does.
    ///
    /// # Safety
    /// `LANES` numbers must be writable at `p`.
    unsafe fn store_rounded(self, p: *mut u16);
    /// Pairs of 16-bit numbers, the bits of a lane each: the first from `a`, the second from `b`.
    ///
    /// # Safety
    /// `LANES` numbers must be readable at `a` and at `b`.
    unsafe fn pair(a: *const u16, b: *const u16) -> Self;
    /// The lanes of both in turn: a₀ b₀ a₁ b₁ and so on, in two vectors.
    fn zip(self, b: Self) -> (Self, Self);
    /// The first lane.
    fn first(self) -> f32;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// self · b + c
    fn fma(self, b: Self, c: Self) -> Self;
    /// The larger of the two; `b` when either is not a number, so `zero.max(x)` hands a NaN on.
    fn max(self, b: Self) -> Self;
    /// Lane by lane: `yes` where self = b, else `no`.
    fn if_equal(self, b: Self, yes: Self, no: Self) -> Self;
    /// Lane by lane: `yes` where self > 0, else zero.
    fn if_positive(self, yes: Self) -> Self;
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Operations;
    impl Kernel for Operations {
        type Output = Vec<[f32; 8]>;
        #[inline(always)]
        fn run<V: Vector>(self) -> Self::Output {
            let a: Vec<f32> = (0..V::LANES).map(|i| i as f32 - 2.0).collect();
            let b: Vec<f32> = (0..V::LANES).map(|i| if i % 3 == 0 { i as f32 - 2.0 } else { 0.5 }).collect();
            // SAFETY: both slices hold LANES floats.
            let (x, y) = unsafe { (V::load(a.as_ptr()), V::load(b.as_ptr())) };
            let two = V::splat(2.0);
            [x.add(y), x.sub(y), x.mul(y), x.fma(two, y), x.max(y), x.if_equal(y, two, x), x.if_positive(y)]
                .into_iter()
                .map(|v| {
                    let mut out = vec![0.0; V::LANES];
                    // SAFETY: `out` holds LANES floats.
                    unsafe { v.store(out.as_mut_ptr()) };
                    std::array::from_fn(|i| out[i])
                })
                .collect()
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same() {
        let expected = Isa::portable().run(Operations);
        let a: [f32; 8] = std::array::from_fn(|i| i as f32 - 2.0);
        let b: [f32; 8] = std::array::from_fn(|i| if i % 3 == 0 { a[i] } else { 0.5 });
        assert_eq!(expected[0], std::array::from_fn(|i| a[i] + b[i]));
        assert_eq!(expected[3], std::array::from_fn(|i| a[i] * 2.0 + b[i]));
        assert_eq!(expected[4], std::array::from_fn(|i| a[i].max(b[i])));
        assert_eq!(expected[5], std::array::from_fn(|i| if a[i] == b[i] { 2.0 } else { a[i] }));
        assert_eq!(expected[6], std::array::from_fn(|i| if a[i] > 0.0 { b[i] } else { 0.0 }));
        for isa in Isa::available() {
            assert_eq!(isa.run(Operations), expected, "{}", isa.name());
        }
    }

    struct NanIsHandedOn;
    impl Kernel for NanIsHandedOn {
        type Output = bool;
        #[inline(always)]
        fn run<V: Vector>(self) -> bool {
            let mut out = vec![0.0; V::LANES];
            // SAFETY: `out` holds LANES floats.
            unsafe { V::splat(0.0).max(V::splat(f32::NAN)).store(out.as_mut_ptr()) };
            out.iter().all(|x| x.is_nan())
        }
    }

    #[test]
    fn the_rectifier_does_not_hide_a_nan() {
        for isa in Isa::available() {
            assert!(isa.run(NanIsHandedOn), "{}", isa.name());
        }
    }

    struct Rounded<'a>(&'a [f32]);
    impl Kernel for Rounded<'_> {
        type Output = Vec<u16>;
        #[inline(always)]
        fn run<V: Vector>(self) -> Vec<u16> {
            let mut out = vec![0; self.0.len()];
            for (from, to) in self.0.chunks_exact(V::LANES).zip(out.chunks_exact_mut(V::LANES)) {
                // SAFETY: both hold LANES numbers.
                unsafe { V::load(from.as_ptr()).store_rounded(to.as_mut_ptr()) };
            }
            out
        }
    }

    #[test]
    fn vectors_round_to_the_same_bits_as_single_numbers() {
        // Every sign and exponent, with fractions at, below and above the middle between two bf16 numbers.
        let fractions = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x1_8000, 0x7f_7fff, 0x7f_8000, 0x7f_ffff];
        let sixteen = fractions.iter().chain(&fractions[..6]);
        let values: Vec<f32> = sixteen
            .flat_map(|fraction| (0..512).map(move |upper| f32::from_bits(upper << 23 | fraction)))
            .collect();
        let expected: Vec<u16> = values.iter().map(|x| crate::bf16::round(*x)).collect();
        for isa in Isa::available() {
            assert_eq!(isa.run(Rounded(&values)), expected, "{}", isa.name());
        }
    }

    struct Moved;
    impl Kernel for Moved {
        type Output = [Vec<u32>; 3];
        #[inline(always)]
        fn run<V: Vector>(self) -> Self::Output {
            let halves: Vec<u16> = (0..2 * V::LANES as u16).collect();
            let bits = |v: V| {
                let mut out = vec![0.0; V::LANES];
                // SAFETY: `out` holds LANES floats.
                unsafe { v.store(out.as_mut_ptr()) };
                out.into_iter().map(f32::to_bits).collect()
            };
            // SAFETY: there are LANES numbers at both.
            let pairs = unsafe { V::pair(halves.as_ptr(), halves.as_ptr().add(V::LANES)) };
            let (lower, upper) = pairs.zip(V::splat(0.0));
            [pairs, lower, upper].map(bits)
        }
    }

    #[test]
    fn pairs_and_lanes_in_turn_are_where_they_should_be() {
        for isa in Isa::available() {
            let lanes = isa.lanes() as u32;
            let [pairs, lower, upper] = isa.run(Moved);
            assert_eq!(
                pairs,
                (0..lanes).map(|i| i | (lanes + i) << 16).collect::<Vec<_>>(),
                "{}",
                isa.name()
            );
            let both: Vec<u32> = lower.into_iter().chain(upper).collect();
            assert_eq!(both, pairs.into_iter().flat_map(|p| [p, 0]).collect::<Vec<_>>(), "{}", isa.name());
        }
    }
}
