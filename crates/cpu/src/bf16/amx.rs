//! The block on AMX: eight tiles of 16 rows of 64 bytes, by inline assembly.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::BLOCK;

/// Whether the CPU has AMX tiles for bf16 and Linux lets this process use them.
pub(super) fn available() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| has_instructions() && system_saves_tiles() && system_permits())
}

/// CPUID leaf 7: AMX-BF16 is bit 22 of EDX, AMX-TILE bit 24.
fn has_instructions() -> bool {
    const NEEDED: u32 = 1 << 22 | 1 << 24;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & NEEDED == NEEDED
}

/// The operating system saves tile configuration (bit 17 of XCR0) and tile data (bit 18) between threads.
fn system_saves_tiles() -> bool {
    const NEEDED: u32 = 1 << 17 | 1 << 18;
    // OSXSAVE, bit 27 of ECX: without it XGETBV is no instruction.
    if __cpuid(1).ecx & 1 << 27 == 0 {
        return false;
    }
    let low: u32;
    // SAFETY: the instruction exists, and it reads a register of the CPU only.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack, preserves_flags));
    }
    low & NEEDED == NEEDED
}

/// Asks Linux (5.16 and later) for the right to use tile data; the answer holds for all threads of the process.
fn system_permits() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let answer: isize;
    // SAFETY: a system call that takes two numbers and touches no memory of ours; the kernel changes RCX and R11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

/// Palette 1: all eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// The tiles of this thread, set up until this is dropped.
pub(super) struct Tiles {
    /// Tiles belong to a thread, so this must not go to another.
    _here: PhantomData<*const ()>,
}

impl Tiles {
    /// Only after [`available`] has said yes.
    pub(super) fn set_up() -> Self {
        assert!(available(), "tiles are set up only where the CPU has them");
        let mut configuration =
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        configuration.bytes[..8].fill(64);
        configuration.rows[..8].fill(16);
        // SAFETY: the instruction exists, and it reads these 64 bytes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &configuration, options(readonly, nostack, preserves_flags));
        }
        Self { _here: PhantomData }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the instruction exists, and it changes tiles only, which no code of the compiler uses.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}

/// # Safety
/// Tiles are set up in this thread; there is at least one step; the operands reach as far as `Session::multiply` asserts.
pub(super) unsafe fn multiply(
    a: *const u16,
    a_row: usize,
    steps: &[usize],
    b: *const u16,
    b_row: usize,
    out: &mut [f32; BLOCK * BLOCK],
) {
    // SAFETY: the caller vouches for all that is read; the four tiles stored fill `out` exactly. A tile is 16 rows, each a
    // stride after the one before: of `a` 32 numbers (64 bytes) of 16 pixels, of `b` 16 columns of 16 pairs.
    // Tiles 0 to 3 are the sums [upper left, upper right, lower left, lower right].
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "mov {at}, qword ptr [{steps}]",
            "lea {at}, [{a} + 2*{at}]",
            "tileloadd tmm4, [{at} + 1*{a_stride}]",
            "add {at}, {a_half}",
            "tileloadd tmm5, [{at} + 1*{a_stride}]",
            "tileloadd tmm6, [{b} + 1*{b_stride}]",
            "tileloadd tmm7, [{b} + 1*{b_stride} + 64]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {b}, {b_step}",
            "add {steps}, 8",
            "dec {count}",
            "jnz 2b",
            "tilestored [{out} + 1*{out_stride}], tmm0",
            "tilestored [{out} + 1*{out_stride} + 64], tmm1",
            "tilestored [{out} + 1*{out_stride} + 2048], tmm2",
            "tilestored [{out} + 1*{out_stride} + 2112], tmm3",
            at = out(reg) _,
            a = in(reg) a,
            a_stride = in(reg) 2 * a_row,
            a_half = in(reg) 32 * a_row,
            steps = inout(reg) steps.as_ptr() => _,
            count = inout(reg) steps.len() => _,
            b = inout(reg) b => _,
            b_stride = in(reg) 2 * b_row,
            b_step = in(reg) 32 * b_row,
            out = in(reg) out.as_mut_ptr(),
            out_stride = in(reg) 4 * BLOCK,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
