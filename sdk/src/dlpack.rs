//! Tensors in and out of DLPack, the in-memory form that array libraries share.
//!
//! A view is in the spirit of DLPack: dtype, device, dims, strides in elements, byte offset, data, and an owner.
//! Borrowing a view as a `DLTensor` copies nothing and lives as long as the view. Exporting hands out a managed tensor
//! that keeps the memory alive by a share of the view's owner; a view that is only borrowed for a call has none and
//! cannot be exported. Importing takes a managed tensor over and calls its deleter when the last share is gone.
//!
//! Both managed forms are known: the one with a version (DLPack 1.x) and the older one without.

use crate::author::View;
use crate::{Dtype, Error, dense_strides};
use std::ffi::c_void;
use std::sync::Arc;
use thunderhead_abi::basic::{Array, Handle, Status, status};
use thunderhead_abi::dtype::DEVICE_CPU;
use thunderhead_abi::tensor::{TensorView, view_flags};

/// Device type of main memory.
pub const DEVICE_TYPE_CPU: i32 = 1;
/// Flag of a managed tensor: must not be written.
pub const FLAG_READ_ONLY: u64 = 1;
/// The version that is exported. Any minor of major 1 is imported.
pub const VERSION: DlVersion = DlVersion { major: 1, minor: 1 };

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlVersion {
    /// Layouts differ between majors.
    pub major: u32,
    /// What may be in them grows with minors.
    pub minor: u32,
}

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDevice {
    /// [`DEVICE_TYPE_CPU`], ….
    pub device_type: i32,
    /// Which of them.
    pub device_id: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlDataType {
    /// Kind: int, uint, float, ….
    pub code: u8,
    /// Bits an element.
    pub bits: u8,
    /// 1 here: no vectors.
    pub lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DlTensor {
    /// Start of the memory.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DlDevice,
    /// Number of dims.
    pub ndim: i32,
    /// Element type.
    pub dtype: DlDataType,
    /// Dims.
    pub shape: *mut i64,
    /// In elements; null: dense row-major.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`, without a version.
#[repr(C)]
pub struct DlManaged {
    /// The tensor.
    pub dl_tensor: DlTensor,
    /// Its owner's.
    pub manager_ctx: *mut c_void,
    /// Called once by whoever holds it; null: nothing to do.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct DlManagedVersioned {
    /// Of the layout.
    pub version: DlVersion,
    /// Its owner's.
    pub manager_ctx: *mut c_void,
    /// Called once by whoever holds it; null: nothing to do.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedVersioned)>,
    /// [`FLAG_READ_ONLY`], ….
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DlTensor,
}

/// Dtypes that have a code: (dtype, code, bits).
const DTYPES: &[(Dtype, u8, u8)] = &[
    (Dtype::I8, 0, 8),
    (Dtype::I16, 0, 16),
    (Dtype::I32, 0, 32),
    (Dtype::I64, 0, 64),
    (Dtype::U8, 1, 8),
    (Dtype::U16, 1, 16),
    (Dtype::U32, 1, 32),
    (Dtype::U64, 1, 64),
    (Dtype::F16, 2, 16),
    (Dtype::F32, 2, 32),
    (Dtype::F64, 2, 64),
    (Dtype::BF16, 4, 16),
    (Dtype::C64, 5, 64),
    (Dtype::C128, 5, 128),
    (Dtype::Bool, 6, 8),
    (Dtype::F8E4M3FN, 10, 8),
    (Dtype::F8E4M3FNUZ, 11, 8),
    (Dtype::F8E5M2, 12, 8),
    (Dtype::F8E5M2FNUZ, 13, 8),
    (Dtype::F8E8M0FNU, 14, 8),
];

/// The DLPack form of a dtype.
pub fn dtype_to_dlpack(dtype: Dtype) -> DlDataType {
    let found = DTYPES.iter().find(|(of, ..)| *of == dtype);
    let (_, code, bits) = found.expect("every dtype has a code (a test walks all)");
    DlDataType { code: *code, bits: *bits, lanes: 1 }
}

/// The dtype of a DLPack form; `None` for vectors and for kinds that have no dtype here.
pub fn dtype_from_dlpack(dtype: DlDataType) -> Option<Dtype> {
    let found = DTYPES.iter().find(|(_, code, bits)| (*code, *bits) == (dtype.code, dtype.bits));
    found.filter(|_| dtype.lanes == 1).map(|(of, ..)| *of)
}

/// A view as a `DLTensor`, for as long as both live.
pub struct Borrowed<'a> {
    tensor: DlTensor,
    _dims: Vec<i64>,
    _strides: Vec<i64>,
    _view: View<'a>,
}

impl Borrowed<'_> {
    /// The tensor. Whoever is given it must not keep it, nor write it.
    pub fn tensor(&self) -> &DlTensor {
        &self.tensor
    }
}

/// Shows a view to a library that takes DLPack.
///
/// Errors: a device other than main memory.
pub fn borrow<'a>(view: &View<'a>) -> Result<Borrowed<'a>, Error> {
    let mut dims = view.dims().to_vec();
    let mut strides = view.strides_elems();
    let tensor = describe(view, &mut dims, &mut strides)?;
    Ok(Borrowed { tensor, _dims: dims, _strides: strides, _view: *view })
}

fn describe(view: &View<'_>, dims: &mut [i64], strides: &mut [i64]) -> Result<DlTensor, Error> {
    if !view.device().is_cpu() {
        return Err(Error::unsupported("only tensors in main memory go to DLPack"));
    }
    Ok(DlTensor {
        data: view.raw().data.cast(),
        device: DlDevice { device_type: DEVICE_TYPE_CPU, device_id: 0 },
        ndim: dims.len() as i32,
        dtype: dtype_to_dlpack(view.dtype()),
        shape: dims.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: view.raw().byte_offset,
    })
}

/// What an exported tensor keeps.
struct Exported {
    managed: DlManagedVersioned,
    _dims: Vec<i64>,
    _strides: Vec<i64>,
    owner: Handle,
    release: unsafe extern "C" fn(Handle) -> Status,
}

/// Hands the tensor out, with a share of its memory. Whoever takes it calls its deleter once.
///
/// Errors: a view that is only borrowed for the call, or that its owner does not share; a device other than main memory.
pub fn export(view: &View<'_>) -> Result<*mut DlManagedVersioned, Error> {
    let raw = view.raw();
    let (false, Some(retain), Some(release)) = (raw.owner.is_null(), raw.retain, raw.release) else {
        return Err(Error::unsupported("the tensor is borrowed for the call; nobody can keep it"));
    };
    let mut dims = view.dims().to_vec();
    let mut strides = view.strides_elems();
    let dl_tensor = describe(view, &mut dims, &mut strides)?;
    // SAFETY: the owner and its function belong together, by the view's contract.
    if unsafe { retain(raw.owner) } != status::OK {
        return Err(Error::unsupported("the tensor's owner does not share it"));
    }
    let managed = DlManagedVersioned {
        version: VERSION,
        manager_ctx: std::ptr::null_mut(),
        deleter: Some(delete_exported),
        flags: if raw.flags & view_flags::READ_ONLY != 0 { FLAG_READ_ONLY } else { 0 },
        dl_tensor,
    };
    let exported = Box::new(Exported { managed, _dims: dims, _strides: strides, owner: raw.owner, release });
    let exported = Box::into_raw(exported);
    // SAFETY: just made; the field lies in it. The context is how the deleter finds the whole again.
    unsafe { (*exported).managed.manager_ctx = exported.cast() };
    // SAFETY: as above.
    Ok(unsafe { &raw mut (*exported).managed })
}

unsafe extern "C" fn delete_exported(managed: *mut DlManagedVersioned) {
    // SAFETY: `export` made it, and it is given back once.
    let exported = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Exported>()) };
    // SAFETY: the share that `export` took.
    unsafe { (exported.release)(exported.owner) };
}

enum Managed {
    Versioned(*mut DlManagedVersioned),
    Plain(*mut DlManaged),
}

/// What an imported tensor keeps.
struct Inner {
    managed: Managed,
    view: TensorView,
    _dims: Vec<i64>,
    _strides: Vec<i64>,
}

// SAFETY: DLPack lets tensors, and their deleters, be used from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above; the tensor is only read here.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.managed {
            Managed::Versioned(managed) => {
                // SAFETY: taken over by `import`, and given back once.
                if let Some(deleter) = unsafe { (*managed).deleter } {
                    // SAFETY: as above.
                    unsafe { deleter(managed) };
                }
            }
            Managed::Plain(managed) => {
                // SAFETY: as above.
                if let Some(deleter) = unsafe { (*managed).deleter } {
                    // SAFETY: as above.
                    unsafe { deleter(managed) };
                }
            }
        }
    }
}

/// A tensor that came as DLPack. Cloning shares it.
#[derive(Clone)]
pub struct Imported(Arc<Inner>);

/// Takes a managed tensor over.
///
/// Errors leave it to the caller: another major version, another device, a dtype or dims that cannot be.
///
/// # Safety
/// `managed` is what DLPack says it is, and is nobody else's.
pub unsafe fn import(managed: *mut DlManagedVersioned) -> Result<Imported, Error> {
    if managed.is_null() {
        return Err(Error::invalid("no tensor was given"));
    }
    // SAFETY: by the caller's word. The version comes first in every major.
    let version = unsafe { (*managed).version };
    if version.major != VERSION.major {
        let (major, minor) = (version.major, version.minor);
        let message = format!("the tensor is DLPack {major}.{minor}; {}.x is taken", VERSION.major);
        return Err(Error::new(crate::ErrorKind::Version, message));
    }
    // SAFETY: by the caller's word, of the layout of this major.
    let (tensor, flags) = unsafe { ((*managed).dl_tensor, (*managed).flags) };
    // SAFETY: passed on.
    unsafe { take(Managed::Versioned(managed), tensor, flags & FLAG_READ_ONLY != 0) }
}

/// Takes a managed tensor of the older form over; it may be written.
///
/// # Safety
/// As [`import`].
pub unsafe fn import_unversioned(managed: *mut DlManaged) -> Result<Imported, Error> {
    if managed.is_null() {
        return Err(Error::invalid("no tensor was given"));
    }
    // SAFETY: by the caller's word.
    let tensor = unsafe { (*managed).dl_tensor };
    // SAFETY: passed on.
    unsafe { take(Managed::Plain(managed), tensor, false) }
}

/// # Safety
/// As [`import`].
unsafe fn take(managed: Managed, tensor: DlTensor, read_only: bool) -> Result<Imported, Error> {
    if tensor.device.device_type != DEVICE_TYPE_CPU {
        return Err(Error::unsupported(format!("device type {} is not taken", tensor.device.device_type)));
    }
    let dtype = dtype_from_dlpack(tensor.dtype)
        .ok_or_else(|| Error::unsupported(format!("{:?} is no dtype here", tensor.dtype)))?;
    let rank = u32::try_from(tensor.ndim).map_err(|_| Error::invalid("a negative number of dims"))?;
    // SAFETY: `ndim` dims by the caller's word.
    let dims = unsafe { crate::author::ints(tensor.shape, rank) };
    let dims = dims.ok_or_else(|| Error::invalid("the tensor's dims are missing"))?.to_vec();
    if dims.iter().any(|dim| *dim < 0) {
        return Err(Error::invalid(format!("the tensor has dims {dims:?}")));
    }
    // SAFETY: null or `ndim` strides by the caller's word.
    let strides = unsafe { crate::author::ints(tensor.strides, rank) };
    let strides = strides.map_or_else(|| dense_strides(&dims), <[i64]>::to_vec);
    let contiguous = strides == dense_strides(&dims);
    let view = TensorView {
        data: tensor.data.cast(),
        byte_offset: tensor.byte_offset,
        dtype: dtype.code(),
        device_kind: DEVICE_CPU,
        device_index: 0,
        rank,
        dims: dims.as_ptr(),
        strides: strides.as_ptr(),
        flags: (if contiguous { view_flags::CONTIGUOUS } else { 0 })
            | (if read_only { view_flags::READ_ONLY } else { 0 }),
        constant_id: 0,
        constant_version: 0,
        owner: std::ptr::null_mut(),
        retain: Some(retain),
        release: Some(release),
    };
    // SAFETY: dims and strides live beside the view.
    unsafe { crate::author::check_view(&view) }?;
    let mut inner = Arc::new(Inner { managed, view, _dims: dims, _strides: strides });
    let owner: Handle = Arc::as_ptr(&inner).cast_mut().cast();
    Arc::get_mut(&mut inner).expect("just made, not shared yet").view.owner = owner;
    Ok(Imported(inner))
}

unsafe extern "C" fn retain(owner: Handle) -> Status {
    // SAFETY: the owner of a view that `take` made is an `Arc` that is alive.
    unsafe { Arc::increment_strong_count(owner.cast::<Inner>()) };
    status::OK
}

unsafe extern "C" fn release(owner: Handle) -> Status {
    // SAFETY: gives back a share that `retain` took.
    unsafe { Arc::decrement_strong_count(owner.cast::<Inner>()) };
    status::OK
}

impl Imported {
    /// The tensor.
    pub fn view(&self) -> View<'_> {
        // SAFETY: of no elements nothing is read.
        let no_outputs = unsafe { Array::EMPTY.items() }.expect("an empty array is in order");
        View::new(&self.0.view, no_outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static DELETED: AtomicUsize = AtomicUsize::new(0);

    struct Owned {
        managed: DlManagedVersioned,
        _data: Vec<f32>,
        _shape: [i64; 2],
        _strides: [i64; 2],
    }

    unsafe extern "C" fn delete(managed: *mut DlManagedVersioned) {
        DELETED.fetch_add(1, Ordering::SeqCst);
        // SAFETY: made below, given back once.
        drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<Owned>()) });
    }

    /// Columns of a 3 × 2 matrix, the first element behind a byte offset.
    fn foreign() -> *mut DlManagedVersioned {
        let mut data = vec![0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let dl_tensor = DlTensor {
            data: data.as_mut_ptr().cast(),
            device: DlDevice { device_type: DEVICE_TYPE_CPU, device_id: 0 },
            ndim: 2,
            dtype: dtype_to_dlpack(Dtype::F32),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 4,
        };
        let managed = DlManagedVersioned {
            version: VERSION,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: FLAG_READ_ONLY,
            dl_tensor,
        };
        let owned = Box::into_raw(Box::new(Owned { managed, _data: data, _shape: [2, 3], _strides: [1, 2] }));
        // SAFETY: just made; what it points at lies in the same box.
        unsafe {
            (*owned).managed.manager_ctx = owned.cast();
            (*owned).managed.dl_tensor.shape = (&raw mut (*owned)._shape).cast();
            (*owned).managed.dl_tensor.strides = (&raw mut (*owned)._strides).cast();
            &raw mut (*owned).managed
        }
    }

    fn values(view: &View<'_>) -> Vec<f32> {
        view.iter::<f32>().expect("f32").collect()
    }

    #[test]
    fn a_tensor_goes_round_and_is_freed_once() {
        // SAFETY: made as DLPack says.
        let imported = unsafe { import(foreign()) }.expect("in order");
        let expected = [1.0, 3.0, 5.0, 2.0, 4.0, 6.0];
        assert_eq!(values(&imported.view()), expected);
        let exported = export(&imported.view()).expect("has an owner");
        drop(imported);
        assert_eq!(DELETED.load(Ordering::SeqCst), 0);
        // SAFETY: made by `export`.
        let again = unsafe { import(exported) }.expect("in order");
        assert_eq!(values(&again.view()), expected);
        assert_eq!(again.view().raw().flags & view_flags::READ_ONLY, view_flags::READ_ONLY);
        drop(again);
        assert_eq!(DELETED.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_is_borrowed_can_be_shown_and_not_kept() {
        let tensor = crate::testing::Tensor::new(&[2, 2], vec![1i32, 2, 3, 4]);
        let raw = tensor.raw_view();
        // SAFETY: of no elements nothing is read.
        let none = unsafe { Array::EMPTY.items() }.expect("in order");
        let view = View::new(&raw, none);
        let shown = borrow(&view).expect("in main memory");
        assert_eq!(shown.tensor().ndim, 2);
        assert_eq!(shown.tensor().dtype, DlDataType { code: 0, bits: 32, lanes: 1 });
        assert_eq!(
            export(&view).map(|_| ()).expect_err("has no owner").kind(),
            crate::ErrorKind::Unsupported
        );
    }

    #[test]
    fn every_dtype_has_one_code() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype_from_dlpack(dtype_to_dlpack(*dtype)), Some(*dtype));
        }
        assert_eq!(dtype_from_dlpack(DlDataType { code: 2, bits: 32, lanes: 4 }), None);
    }

    #[test]
    fn what_cannot_be_is_left_to_the_caller() {
        let odd = |change: fn(&mut DlManagedVersioned)| {
            let managed = foreign();
            // SAFETY: ours.
            change(unsafe { &mut *managed });
            // SAFETY: as DLPack says, but for the change.
            let error = unsafe { import(managed) }.map(|_| ()).expect_err("cannot be");
            // SAFETY: left to us.
            drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<Owned>()) });
            error.to_string()
        };
        assert!(odd(|m| m.version.major = 2).contains("DLPack 2.1"));
        assert!(odd(|m| m.dl_tensor.device.device_type = 2).contains("device type 2"));
        assert!(odd(|m| m.dl_tensor.dtype.lanes = 4).contains("lanes: 4"));
        assert!(odd(|m| m.dl_tensor.ndim = -1).contains("negative"));
        assert!(odd(|m| m.dl_tensor.byte_offset = 3).contains("aligned"));
    }
}
