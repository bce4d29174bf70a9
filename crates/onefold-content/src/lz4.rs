//! The LZ4 C library: decompression of every block, compression of blocks beyond 64 KiB.
//! Room: onefold-content.   In: blocks.   Out: LZ4 blocks, and back.
//! Invariants: malformed input gives `None`; nothing is read or written outside the slices.

use std::ffi::{c_char, c_int};

/// Appends the LZ4 block of `data` to `out` if it takes at most `max_len` bytes.
pub(crate) fn compress_into(data: &[u8], out: &mut Vec<u8>, max_len: usize) -> bool {
    let Ok(len) = c_int::try_from(data.len()) else { return false };
    // SAFETY: a pure function of its argument.
    let bound = unsafe { lz4_sys::LZ4_compressBound(len) };
    // The bound of an input that is too long for the library is 0.
    let Some(bound) = usize::try_from(bound).ok().filter(|&bound| bound > 0) else { return false };
    let bound = bound.min(max_len);
    out.reserve(bound);
    let end = out.len();
    // SAFETY: the source is `len` readable bytes, the destination `bound` writable ones past
    // the vector's end, reserved above; `bound` fits a `c_int`, from which it came.
    let written = unsafe {
        lz4_sys::LZ4_compress_default(
            data.as_ptr().cast::<c_char>(),
            out.as_mut_ptr().add(end).cast::<c_char>(),
            len,
            bound as c_int,
        )
    };
    // 0 says that the encoding does not fit.
    let Some(written) = usize::try_from(written).ok().filter(|&n| n > 0) else { return false };
    // SAFETY: the library initialised `written` <= `bound` bytes there.
    unsafe { out.set_len(end + written) };
    true
}

/// Decodes one LZ4 block; the number of bytes decoded, or `None` if it is malformed or longer
/// than `out`.
pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Option<usize> {
    let stored_len = c_int::try_from(stored.len()).ok()?;
    let out_len = c_int::try_from(out.len()).ok()?;
    // SAFETY: both lengths are those of the slices; the function checks every access against them.
    let decoded = unsafe {
        lz4_sys::LZ4_decompress_safe(
            stored.as_ptr().cast::<c_char>(),
            out.as_mut_ptr().cast::<c_char>(),
            stored_len,
            out_len,
        )
    };
    usize::try_from(decoded).ok()
}
