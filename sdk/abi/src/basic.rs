//! Text, arrays, handles and status codes: what every table is made of.
//!
//! Invariant: no type here owns memory. Lifetimes are those of the call or object that handed the value out.

use abi_stable::StableAbi;
use std::ffi::c_void;
use std::marker::PhantomData;

/// An opaque pointer that only its maker looks behind. Null means "none".
pub type Handle = *mut c_void;

/// What a function answers. Codes from 1 on are failures; unknown ones are read as [`status::INTERNAL`].
pub type Status = u32;

/// The values of [`Status`].
pub mod status {
    use super::Status;
    /// Done.
    pub const OK: Status = 0;
    /// A value handed in is wrong.
    pub const INVALID_ARGUMENT: Status = 1;
    /// The request is well formed, but not something this plugin or host does.
    pub const UNSUPPORTED: Status = 2;
    /// Memory could not be had.
    pub const OUT_OF_MEMORY: Status = 3;
    /// A device, library or file that is needed is missing now.
    pub const UNAVAILABLE: Status = 4;
    /// A struct is of a version that the reader cannot take (rule V8).
    pub const VERSION: Status = 5;
    /// A fault of the one who answers.
    pub const INTERNAL: Status = 6;
    /// A panic was caught. The host quarantines the executor.
    pub const PANIC: Status = 7;
    /// It took too long.
    pub const TIMEOUT: Status = 8;
    /// The run was cancelled, and the kernel noticed.
    pub const CANCELLED: Status = 9;
    /// `check_op` only: the op is not taken; the reason was given to `error/1`'s `refuse`. Not a failure.
    pub const REFUSED: Status = 10;
    /// The data that a run was given cannot be worked on: an index or a label outside its axis, an integer divided by zero. The
    /// host says so of the model's inputs, not of the plugin, and asks nobody else.
    pub const BAD_DATA: Status = 11;

    /// The name of a status as it is printed, or `None` for one that this version does not know.
    pub const fn name(status: Status) -> Option<&'static str> {
        Some(match status {
            OK => "ok",
            INVALID_ARGUMENT => "invalid_argument",
            UNSUPPORTED => "unsupported",
            OUT_OF_MEMORY => "out_of_memory",
            UNAVAILABLE => "unavailable",
            VERSION => "version",
            INTERNAL => "internal",
            PANIC => "panic",
            TIMEOUT => "timeout",
            CANCELLED => "cancelled",
            REFUSED => "refused",
            BAD_DATA => "bad_data",
            _ => return None,
        })
    }
}

/// UTF-8 text, not terminated. `ptr` may be null where `len` is 0.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Str {
    /// First byte.
    pub ptr: *const u8,
    /// Bytes.
    pub len: u64,
}

impl Str {
    /// The empty text.
    pub const EMPTY: Str = Str { ptr: std::ptr::null(), len: 0 };

    /// Views `text`; the caller keeps it alive for as long as the border's contract asks.
    pub const fn new(text: &str) -> Str {
        Str { ptr: text.as_ptr(), len: text.len() as u64 }
    }

    /// The bytes behind, or `None` where pointer or length cannot be a Rust slice.
    ///
    /// # Safety
    /// Where `ptr` is not null, `len` bytes must be readable and unchanging for `'a`.
    pub unsafe fn bytes<'a>(&self) -> Option<&'a [u8]> {
        if self.len == 0 {
            return Some(&[]);
        }
        if self.ptr.is_null() || self.len > isize::MAX as u64 {
            return None;
        }
        // SAFETY: not null and not longer than any object; readable for `'a` by the caller's word.
        Some(unsafe { std::slice::from_raw_parts(self.ptr, self.len as usize) })
    }

    /// The text, or `None` where it is not UTF-8.
    ///
    /// # Safety
    /// As [`Str::bytes`].
    pub unsafe fn text<'a>(&self) -> Option<&'a str> {
        // SAFETY: passed on to the caller.
        std::str::from_utf8(unsafe { self.bytes() }?).ok()
    }
}

// SAFETY: a view without interior mutability; whoever makes one that outlives a call vouches for the memory.
unsafe impl Send for Str {}
// SAFETY: as above.
unsafe impl Sync for Str {}

/// `len` elements, `stride_bytes` apart, so that an element may grow at its end without breaking older readers:
/// step by `stride_bytes`, never by the size that you know.
#[repr(C)]
#[derive(StableAbi)]
pub struct Array<T> {
    /// First element; may be null where `len` is 0.
    pub ptr: *const T,
    /// Elements.
    pub len: u64,
    /// Bytes from one element to the next, as the writer has them.
    pub stride_bytes: u64,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Array<T> {}

// SAFETY: a view without interior mutability; whoever makes one that outlives a call vouches for the memory.
unsafe impl<T: Sync> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Array<T> {}

impl<T> Array<T> {
    /// No elements.
    pub const EMPTY: Array<T> =
        Array { ptr: std::ptr::null(), len: 0, stride_bytes: std::mem::size_of::<T>() as u64 };

    /// Views `items`; the caller keeps them alive for as long as the border's contract asks.
    pub const fn new(items: &[T]) -> Array<T> {
        Array { ptr: items.as_ptr(), len: items.len() as u64, stride_bytes: std::mem::size_of::<T>() as u64 }
    }

    /// The elements with bounds and strides checked, or `None` where the header cannot be right: null with
    /// elements, elements shorter than `T`, misaligned, or a total that no object has.
    ///
    /// # Safety
    /// Where this returns `Some`, the elements must be readable and unchanging for `'a`.
    pub unsafe fn items<'a>(&self) -> Option<Items<'a, T>> {
        if self.len == 0 {
            let stride_bytes = std::mem::size_of::<T>();
            return Some(Items { ptr: std::ptr::null(), len: 0, stride_bytes, of: PhantomData });
        }
        let align = std::mem::align_of::<T>();
        let total = self.len.checked_mul(self.stride_bytes)?;
        let fits = !self.ptr.is_null()
            && self.stride_bytes >= std::mem::size_of::<T>() as u64
            && (self.ptr as usize).is_multiple_of(align)
            && self.stride_bytes.is_multiple_of(align as u64)
            && total <= isize::MAX as u64;
        fits.then_some(Items {
            ptr: self.ptr,
            len: self.len as usize,
            stride_bytes: self.stride_bytes as usize,
            of: PhantomData,
        })
    }
}

/// Whether a struct that says it has `size` bytes, of which the reader knows those of a `T`, holds nothing that the reader
/// would have to know (rule V8): not shorter, and zero behind what is known.
///
/// # Safety
/// Where `size` is at least that of a `T`, `size` bytes must be readable at `at`.
pub unsafe fn is_understood<T>(at: *const T, size: u64) -> bool {
    let known = std::mem::size_of::<T>();
    // No struct of this ABI is anywhere near as long; a size beyond it is garbage, not a later version.
    const MAX_BYTES: u64 = 1 << 12;
    if size < known as u64 || size > MAX_BYTES {
        return false;
    }
    let start = at.cast::<u8>();
    (known..size as usize).all(|offset| {
        // SAFETY: within the struct, by the caller's word.
        let byte = unsafe { start.add(offset).read() };
        byte == 0
    })
}

/// The checked elements of an [`Array`].
pub struct Items<'a, T> {
    ptr: *const T,
    len: usize,
    stride_bytes: usize,
    of: PhantomData<&'a T>,
}

impl<T> Clone for Items<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Items<'_, T> {}

// SAFETY: shared references to `T`, spelled as a pointer.
unsafe impl<T: Sync> Send for Items<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Items<'_, T> {}

impl<'a, T> Items<'a, T> {
    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element `idx`, or `None` past the end.
    #[inline]
    pub fn get(&self, idx: usize) -> Option<&'a T> {
        if idx >= self.len {
            return None;
        }
        // SAFETY: within the array, whose total size `items` has checked.
        let item = unsafe { self.ptr.byte_add(idx * self.stride_bytes) };
        // SAFETY: aligned by the checks of `items`, readable for `'a` by its contract.
        Some(unsafe { &*item })
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let items = *self;
        (0..items.len).filter_map(move |idx| items.get(idx))
    }

    /// Whether no element holds anything behind what is known of it here (rule V8).
    pub fn are_understood(&self) -> bool {
        // Elements of our own size have nothing behind.
        self.stride_bytes == std::mem::size_of::<T>()
            || self.iter().all(|item| {
                // SAFETY: elements are `stride_bytes` apart, all of it the array's.
                unsafe { is_understood(item, self.stride_bytes as u64) }
            })
    }

    /// As a slice, where the elements lie side by side.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        if self.len == 0 {
            return Some(&[]);
        }
        if self.stride_bytes != std::mem::size_of::<T>() {
            return None;
        }
        // SAFETY: dense, aligned, not null, readable for `'a`.
        Some(unsafe { std::slice::from_raw_parts(self.ptr, self.len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Longer {
        known: [u64; 2],
        tail: u64,
    }

    #[test]
    fn longer_structs_are_taken_shorter_ones_refused() {
        let mut longer = Longer { known: [24, 7], tail: 0 };
        let size = std::mem::size_of::<Longer>() as u64;
        let understood = |longer: &Longer, size| {
            // SAFETY: `Longer` has that many bytes.
            unsafe { is_understood(std::ptr::from_ref(longer).cast::<[u64; 2]>(), size) }
        };
        assert!(understood(&longer, 16) && understood(&longer, size));
        assert!(!understood(&longer, 8));
        longer.tail = 1;
        assert!(understood(&longer, 16) && !understood(&longer, size));
    }

    #[test]
    fn arrays_are_stepped_by_their_own_stride() {
        let mut longer = [Longer { known: [1, 2], tail: 0 }, Longer { known: [3, 4], tail: 0 }];
        let array = |longer: &[Longer; 2]| Array::<[u64; 2]> {
            ptr: longer.as_ptr().cast(),
            len: 2,
            stride_bytes: 24,
        };
        // SAFETY: two elements, 24 bytes apart.
        let items = unsafe { array(&longer).items() }.expect("in order");
        assert_eq!(items.iter().copied().collect::<Vec<_>>(), [[1, 2], [3, 4]]);
        assert!(items.are_understood() && items.as_slice().is_none());
        longer[1].tail = 9;
        // SAFETY: as above.
        assert!(!unsafe { array(&longer).items() }.expect("in order").are_understood());
    }

    #[test]
    fn headers_of_arrays_are_checked() {
        let data = [1u64, 2, 3];
        let good = Array::new(&data);
        let wrong = [
            Array { ptr: std::ptr::null(), ..good },
            Array { stride_bytes: 4, ..good },
            Array { stride_bytes: 12, ..good },
            Array { len: u64::MAX, ..good },
            Array { ptr: good.ptr.wrapping_byte_add(4), ..good },
        ];
        for array in wrong {
            // SAFETY: refused before anything is read.
            assert!(unsafe { array.items() }.is_none());
        }
        // SAFETY: three elements.
        assert_eq!(unsafe { good.items() }.and_then(|items| items.as_slice()), Some(&data[..]));
    }
}
