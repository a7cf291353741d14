//! The functions that cross: each catches panics, checks what it was given, and turns answers into statuses.
//!
//! Invariant: nothing unwinds out of a function here. After `PANIC` the host calls the executor no more, so what a
//! panic left half done is never seen.

use super::call::{Binding, Call};
use super::create::Create;
use super::error::{Error, ErrorKind, Refusal};
use super::executor::{Bound, Executor, Kernel};
use super::op::Op;
use super::region::{OpId, Region, Steps};
use super::services::Services;
use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use thunderhead_abi::basic::{Array, Handle, Status, Str, status};
use thunderhead_abi::bind_1::{self, BindArgs, BindV1};
use thunderhead_abi::claim_1::{self, ClaimV1};
use thunderhead_abi::compile_1::{self, CompileV1};
use thunderhead_abi::entry::{Description, EntryV1};
use thunderhead_abi::executor_1::{self, ExecutorV1};
use thunderhead_abi::host::HostV1;
use thunderhead_abi::kernel_1::{self, InPlace, KernelInfo, KernelV1, OutputStrides, RunArgs, kernel_flags};
use thunderhead_abi::lifecycle_1::{self, LifecycleV1};
use thunderhead_abi::op::OpDesc;
use thunderhead_abi::region::RegionDesc;
use thunderhead_abi::region_1::{self, RegionV1, TakeProposal};
use thunderhead_abi::selftest_1::{self, SelftestV1};
use thunderhead_abi::workspace_1::{self, WorkspaceV1};
use thunderhead_abi::{ABI_MAJOR, ABI_MINOR};

/// Runs `f`; a panic becomes its message.
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(message_of)
}

fn message_of(payload: Box<dyn Any + Send>) -> String {
    let other = match payload.downcast::<&'static str>() {
        Ok(text) => return (*text).to_owned(),
        Err(other) => other,
    };
    match other.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => {
            // Somebody's own type, whose drop may panic again.
            std::mem::forget(other);
            "a panic without a message".to_owned()
        }
    }
}

/// Runs `f` and reports how it ended.
#[inline]
fn guarded(services: &Services, f: impl FnOnce() -> Result<(), Error>) -> Status {
    match caught(f) {
        Ok(Ok(())) => status::OK,
        Ok(Err(error)) => services.report(&error),
        Err(message) => services.report(&Error::new(ErrorKind::Panic, message)),
    }
}

/// [`Executor`] without `Sized`, so that one table serves all types.
trait AnyExecutor: Send + Sync {
    fn available(&self) -> Result<(), Error>;
    fn check(&self, op: &Op<'_>) -> Result<(), Refusal>;
    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error>;
    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error>;
    fn propose_regions(&self, region: &Region<'_>) -> Result<Option<Vec<Vec<OpId>>>, Error>;
    fn selftest(&self) -> Result<(), Error>;
    fn quiesce(&self);
}

impl<E: Executor> AnyExecutor for E {
    fn available(&self) -> Result<(), Error> {
        Executor::available(self)
    }
    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        Executor::check(self, op)
    }
    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        Executor::kernel(self, op)
    }
    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        Executor::lower_region(self, region, steps)
    }
    fn propose_regions(&self, region: &Region<'_>) -> Result<Option<Vec<Vec<OpId>>>, Error> {
        Executor::propose_regions(self, region)
    }
    fn selftest(&self) -> Result<(), Error> {
        Executor::selftest(self)
    }
    fn quiesce(&self) {
        Executor::quiesce(self);
    }
}

/// One executor of a plugin: its name, and how to make it.
#[doc(hidden)]
pub struct ExecutorDecl {
    name: &'static str,
    text: Str,
    create: fn(&Create<'_>) -> Result<Box<dyn Opaque>, Error>,
}

/// Hides [`AnyExecutor`] from the macro's users.
#[doc(hidden)]
pub trait Opaque: Send + Sync {
    #[doc(hidden)]
    fn into_instance(self: Box<Self>, seal: InstanceSeal) -> Handle;
}

#[doc(hidden)]
pub struct InstanceSeal(Arc<Services>);

impl<E: Executor> Opaque for E {
    fn into_instance(self: Box<Self>, seal: InstanceSeal) -> Handle {
        let instance: Box<Instance> = Box::new(Instance { executor: self, services: seal.0 });
        Box::into_raw(instance).cast()
    }
}

impl ExecutorDecl {
    /// Declares executor type `E` under `name`.
    pub const fn of<E: Executor>(name: &'static str) -> ExecutorDecl {
        ExecutorDecl {
            name,
            text: Str::new(name),
            create: |ctx| E::create(ctx).map(|executor| Box::new(executor) as Box<dyn Opaque>),
        }
    }
}

/// What `export_plugin!` and `define_plugin!` make of their arguments.
#[doc(hidden)]
pub trait Plugin: 'static {
    /// The manifest's text.
    const MANIFEST: &'static str;
    /// Its executors.
    const EXECUTORS: &'static [ExecutorDecl];
    /// Whether it has a copy of the `log` crate of its own, as a `cdylib` has.
    const OWNS_LOG: bool;
}

struct Of<P>(std::marker::PhantomData<P>);

impl<P: Plugin> Of<P> {
    const ENTRY: EntryV1 = EntryV1 {
        size: std::mem::size_of::<EntryV1>() as u64,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        describe: describe::<P>,
        get_table: get_table::<P>,
    };
    const EXECUTOR: ExecutorV1 = ExecutorV1 {
        size: std::mem::size_of::<ExecutorV1>() as u64,
        create: create::<P>,
        destroy,
        available,
    };
    const DESCRIPTION: Description = Description {
        size: std::mem::size_of::<Description>() as u64,
        manifest: Str::new(P::MANIFEST),
        // The names stand in structs of more fields, which is what the stride is for.
        executors: Array {
            // SAFETY: the field lies within the first element; of no elements nothing is read.
            ptr: unsafe { P::EXECUTORS.as_ptr().byte_add(std::mem::offset_of!(ExecutorDecl, text)) }.cast(),
            len: P::EXECUTORS.len() as u64,
            stride_bytes: std::mem::size_of::<ExecutorDecl>() as u64,
        },
        sdk_version: Str::new(env!("CARGO_PKG_VERSION")),
    };
}

/// The entry of plugin `P`.
#[doc(hidden)]
pub const fn entry_of<P: Plugin>() -> &'static EntryV1 {
    &Of::<P>::ENTRY
}

static CLAIM: ClaimV1 = ClaimV1 { size: std::mem::size_of::<ClaimV1>() as u64, check_op };
static KERNEL: KernelV1 = KernelV1 { size: std::mem::size_of::<KernelV1>() as u64, make, run, free };
static BIND: BindV1 = BindV1 { size: std::mem::size_of::<BindV1>() as u64, bind, run: run_bound, unbind };
static WORKSPACE: WorkspaceV1 =
    WorkspaceV1 { size: std::mem::size_of::<WorkspaceV1>() as u64, bytes: workspace_bytes };
static COMPILE: CompileV1 = CompileV1 { size: std::mem::size_of::<CompileV1>() as u64, lower };
static REGION: RegionV1 = RegionV1 { size: std::mem::size_of::<RegionV1>() as u64, propose };
static LIFECYCLE: LifecycleV1 = LifecycleV1 { size: std::mem::size_of::<LifecycleV1>() as u64, quiesce };
static SELFTEST: SelftestV1 = SelftestV1 { size: std::mem::size_of::<SelftestV1>() as u64, run: selftest };

unsafe extern "C" fn describe<P: Plugin>() -> *const Description {
    &Of::<P>::DESCRIPTION
}

unsafe extern "C" fn get_table<P: Plugin>(id: Str) -> *const c_void {
    // SAFETY: the host's text is readable during the call.
    match unsafe { id.text() } {
        Some(executor_1::ID) => erased(const { &Of::<P>::EXECUTOR }),
        Some(claim_1::ID) => erased(&CLAIM),
        Some(kernel_1::ID) => erased(&KERNEL),
        Some(bind_1::ID) => erased(&BIND),
        Some(workspace_1::ID) => erased(&WORKSPACE),
        Some(compile_1::ID) => erased(&COMPILE),
        Some(region_1::ID) => erased(&REGION),
        Some(lifecycle_1::ID) => erased(&LIFECYCLE),
        Some(selftest_1::ID) => erased(&SELFTEST),
        _ => std::ptr::null(),
    }
}

fn erased<T>(table: &'static T) -> *const c_void {
    std::ptr::from_ref(table).cast()
}

/// What an executor's handle points at.
struct Instance {
    executor: Box<dyn AnyExecutor>,
    services: Arc<Services>,
}

/// What a kernel's handle points at.
struct KernelObject {
    kernel: Box<dyn Kernel>,
    services: Arc<Services>,
    in_place: Vec<InPlace>,
    output_strides: Vec<OutputStrides>,
    /// What `output_strides` points into.
    _strides: Vec<Vec<i64>>,
}

/// What a bound object's handle points at.
struct BoundObject {
    bound: Box<dyn Bound>,
    services: Arc<Services>,
}

unsafe extern "C" fn create<P: Plugin>(host: *const HostV1, name: Str, out: *mut Handle) -> Status {
    // SAFETY: not null, and alive as long as the process, by the table's contract.
    let services = match unsafe { Services::new(&*host) } {
        Ok(services) => services,
        Err(error) => return error.kind().status(),
    };
    guarded(&services, || {
        if P::OWNS_LOG {
            super::log_bridge::set(&services);
        }
        // SAFETY: readable during the call.
        let name = unsafe { name.text() }.ok_or_else(|| Error::invalid("the executor's name is not text"))?;
        let decl = P::EXECUTORS.iter().find(|decl| decl.name == name);
        let decl = decl.ok_or_else(|| Error::invalid(format!("the plugin has no executor `{name}`")))?;
        let executor = (decl.create)(&Create { name, services: &services })?;
        // SAFETY: writable by the table's contract.
        unsafe { out.write(executor.into_instance(InstanceSeal(services.clone()))) };
        Ok(())
    })
}

/// # Safety
/// `executor` is a handle that `create` made and `destroy` has not had.
unsafe fn instance<'a>(executor: Handle) -> &'a Instance {
    // SAFETY: by the caller's word.
    unsafe { &*executor.cast::<Instance>() }
}

unsafe extern "C" fn destroy(executor: Handle) -> Status {
    // SAFETY: made by `create`, and used for the last time.
    let instance = unsafe { Box::from_raw(executor.cast::<Instance>()) };
    let services = instance.services.clone();
    guarded(&services, || {
        drop(instance);
        Ok(())
    })
}

unsafe extern "C" fn available(executor: Handle) -> Status {
    // SAFETY: a live handle by the table's contract.
    let instance = unsafe { instance(executor) };
    guarded(&instance.services, || instance.executor.available())
}

unsafe extern "C" fn check_op(executor: Handle, op: *const OpDesc) -> Status {
    // SAFETY: a live handle by the table's contract.
    let instance = unsafe { instance(executor) };
    let mut refused = false;
    let answer = guarded(&instance.services, || {
        // SAFETY: filled in and readable by the table's contract.
        let op = unsafe { Op::read(&*op) }?;
        if let Err(refusal) = instance.executor.check(&op) {
            instance.services.refuse(&refusal);
            refused = true;
        }
        Ok(())
    });
    if refused && answer == status::OK { status::REFUSED } else { answer }
}

unsafe extern "C" fn make(executor: Handle, op: *const OpDesc, info: *mut KernelInfo) -> Status {
    // SAFETY: a live handle by the table's contract.
    let instance = unsafe { instance(executor) };
    guarded(&instance.services, || {
        // SAFETY: the host has set the size of its struct.
        let size = unsafe { (*info).size };
        if size < std::mem::size_of::<KernelInfo>() as u64 {
            return Err(Error::new(ErrorKind::Version, format!("KernelInfo has {size} bytes")));
        }
        // SAFETY: filled in and readable by the table's contract.
        let op = unsafe { Op::read(&*op) }?;
        let kernel = instance.executor.kernel(&op)?;
        let answer = describe_kernel(kernel, instance.services.clone(), size);
        // SAFETY: writable, and at least as long as ours.
        unsafe { info.write(answer) };
        Ok(())
    })
}

pub(super) fn describe_kernel(kernel: Box<dyn Kernel>, services: Arc<Services>, size: u64) -> KernelInfo {
    let flags = if kernel.size_independent() { kernel_flags::SIZE_INDEPENDENT } else { 0 };
    let in_place = kernel.in_place().into_iter();
    let in_place =
        in_place.map(|(output, input)| InPlace { output: output as u32, input: input as u32 }).collect();
    let stated: Vec<(u32, Vec<i64>)> = kernel
        .output_strides()
        .into_iter()
        .enumerate()
        .filter_map(|(output, strides)| Some((output as u32, strides?)))
        .collect();
    let output_strides = stated
        .iter()
        .map(|(output, strides)| OutputStrides {
            output: *output,
            rank: strides.len() as u32,
            strides: strides.as_ptr(),
        })
        .collect();
    // Moving the inner vectors leaves what `output_strides` points at in place.
    let strides = stated.into_iter().map(|(_, strides)| strides).collect();
    let object = Box::new(KernelObject { kernel, services, in_place, output_strides, _strides: strides });
    KernelInfo {
        size,
        flags,
        in_place: Array::new(&object.in_place),
        output_strides: Array::new(&object.output_strides),
        kernel: Box::into_raw(object).cast(),
    }
}

/// Drops a kernel that the host did not take. Its drop may panic as any code of the author: that is the caller's to catch.
///
/// # Safety
/// `kernel` comes from [`describe_kernel`] and is used for the last time.
pub(super) unsafe fn drop_kernel(kernel: Handle) {
    // SAFETY: by the caller's word.
    drop(unsafe { Box::from_raw(kernel.cast::<KernelObject>()) });
}

unsafe extern "C" fn lower(executor: Handle, region: *const RegionDesc, lowering: Handle) -> Status {
    // SAFETY: a live handle by the table's contract.
    let instance = unsafe { instance(executor) };
    guarded(&instance.services, || {
        // SAFETY: filled in and readable by the table's contract, as long as this call.
        let region = unsafe { Region::read(&*region, &instance.services, lowering) }?;
        let mut steps = Steps::new(&instance.services, lowering)?;
        instance.executor.lower_region(&region, &mut steps)
    })
}

unsafe extern "C" fn propose(
    executor: Handle,
    region: *const RegionDesc,
    take: TakeProposal,
    to: *mut c_void,
) -> Status {
    // SAFETY: a live handle by the table's contract.
    let instance = unsafe { instance(executor) };
    guarded(&instance.services, || {
        // SAFETY: filled in and readable by the table's contract, as long as this call.
        let region = unsafe { Region::read(&*region, &instance.services, std::ptr::null_mut()) }?;
        let proposals = instance.executor.propose_regions(&region)?;
        let proposals = proposals.ok_or_else(|| Error::unsupported("no opinion"))?;
        for ops in &proposals {
            // SAFETY: the host's own function with its own argument; the list is readable during the call.
            let answer = unsafe { (take.call)(to, Array::new(ops)) };
            if answer != status::OK {
                return Err(Error::new(ErrorKind::from_status(answer), "the host takes no such proposal"));
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn run(kernel: Handle, args: *const RunArgs) -> Status {
    // SAFETY: a live kernel by the table's contract.
    let object = unsafe { &*kernel.cast::<KernelObject>() };
    guarded(&object.services, || {
        // SAFETY: filled in and readable by the table's contract.
        let mut call = unsafe { Call::read(&*args, &object.services) }?;
        object.kernel.run(&mut call)
    })
}

unsafe extern "C" fn free(kernel: Handle) -> Status {
    // SAFETY: made by `make`, and used for the last time.
    let object = unsafe { Box::from_raw(kernel.cast::<KernelObject>()) };
    let services = object.services.clone();
    guarded(&services, || {
        drop(object);
        Ok(())
    })
}

unsafe extern "C" fn bind(kernel: Handle, args: *const BindArgs, out: *mut Handle) -> Status {
    // SAFETY: a live kernel by the table's contract.
    let object = unsafe { &*kernel.cast::<KernelObject>() };
    guarded(&object.services, || {
        // SAFETY: filled in and readable by the table's contract.
        let binding = unsafe { Binding::read(&*args) }?;
        let bound = object.kernel.bind(&binding)?;
        let handle: Handle = match bound {
            Some(bound) => {
                Box::into_raw(Box::new(BoundObject { bound, services: object.services.clone() })).cast()
            }
            None => std::ptr::null_mut(),
        };
        // SAFETY: writable by the table's contract.
        unsafe { out.write(handle) };
        Ok(())
    })
}

unsafe extern "C" fn run_bound(bound: Handle, args: *const RunArgs) -> Status {
    // SAFETY: a live bound object, used by one call at a time, by the table's contract.
    let object = unsafe { &mut *bound.cast::<BoundObject>() };
    let services = &object.services;
    guarded(services, || {
        // SAFETY: filled in and readable by the table's contract.
        let mut call = unsafe { Call::read(&*args, services) }?;
        object.bound.run(&mut call)
    })
}

unsafe extern "C" fn unbind(bound: Handle) -> Status {
    // SAFETY: made by `bind`, and used for the last time.
    let object = unsafe { Box::from_raw(bound.cast::<BoundObject>()) };
    let services = object.services.clone();
    guarded(&services, || {
        drop(object);
        Ok(())
    })
}

unsafe extern "C" fn workspace_bytes(kernel: Handle, threads: u32, out: *mut u64) -> Status {
    // SAFETY: a live kernel by the table's contract.
    let object = unsafe { &*kernel.cast::<KernelObject>() };
    guarded(&object.services, || {
        let bytes = object.kernel.workspace_bytes(threads as usize) as u64;
        // SAFETY: writable by the table's contract.
        unsafe { out.write(bytes) };
        Ok(())
    })
}

unsafe extern "C" fn quiesce(executor: Handle) -> Status {
    // SAFETY: a live handle by the table's contract.
    let instance = unsafe { instance(executor) };
    guarded(&instance.services, || {
        instance.executor.quiesce();
        Ok(())
    })
}

unsafe extern "C" fn selftest(executor: Handle) -> Status {
    // SAFETY: a live handle by the table's contract.
    let instance = unsafe { instance(executor) };
    guarded(&instance.services, || instance.executor.selftest())
}

#[cfg(test)]
mod tests;
