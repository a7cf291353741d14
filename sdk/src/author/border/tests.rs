//! Rule V5: what the host has not has a default. Rule V8: what it says beyond this SDK's knowledge is refused.

use crate::{Call, Create, Error, Executor, Kernel, Op};
use std::ffi::c_void;
use thunderhead_abi::basic::{Array, Handle, Str, status};
use thunderhead_abi::executor_1::{self, ExecutorV1};
use thunderhead_abi::host::HostV1;
use thunderhead_abi::kernel_1::{self, KernelInfo, KernelV1};
use thunderhead_abi::op::OpDesc;
use thunderhead_abi::options_1::{self, OptionValue, OptionsV1, option_kind};

struct Acme;

impl Executor for Acme {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        assert_eq!(ctx.options().int("scale")?, 3);
        ctx.log().info("nobody hears this");
        Ok(Acme)
    }
    fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        Ok(Box::new(Nothing))
    }
}

struct Nothing;

impl Kernel for Nothing {
    fn run(&self, _: &mut Call<'_>) -> Result<(), Error> {
        Ok(())
    }
}

crate::define_plugin! { manifest: "name = 'acme'", executors: { "acme" => Acme } }

/// A host with `options/1` and nothing else.
unsafe extern "C" fn tables(_: Handle, id: Str) -> *const c_void {
    static OPTIONS: OptionsV1 = OptionsV1 { size: 16, get };
    // SAFETY: readable during the call.
    if unsafe { id.text() } == Some(options_1::ID) { (&raw const OPTIONS).cast() } else { std::ptr::null() }
}

unsafe extern "C" fn get(_: Handle, _: Str, out: *mut *const OptionValue) -> u32 {
    static THREE: OptionValue =
        OptionValue { kind: option_kind::INT, reserved: 0, value: 3, text: Str::EMPTY, list: Array::EMPTY };
    // SAFETY: writable during the call.
    unsafe { out.write(&THREE) };
    status::OK
}

#[repr(C)]
struct Longer<T> {
    known: T,
    tail: u64,
}

fn host(tail: u64) -> Longer<HostV1> {
    let known = HostV1 {
        size: std::mem::size_of::<Longer<HostV1>>() as u64,
        abi_major: thunderhead_abi::ABI_MAJOR,
        abi_minor: thunderhead_abi::ABI_MINOR,
        ctx: std::ptr::null_mut(),
        get_table: tables,
        name: Str::EMPTY,
        threads: 1,
        reserved: 0,
    };
    Longer { known, tail }
}

fn table<T>(id: &str) -> &'static T {
    // SAFETY: the plugin's function; its tables are static and of the type that goes with the id.
    unsafe { &*(entry().get_table)(Str::new(id)).cast::<T>() }
}

fn create(host: &Longer<HostV1>) -> (u32, Handle) {
    let mut executor: Handle = std::ptr::null_mut();
    let create = table::<ExecutorV1>(executor_1::ID).create;
    // SAFETY: a host of this form outlives the executor in these tests.
    (unsafe { create(&host.known, Str::new("acme"), &mut executor) }, executor)
}

#[test]
fn a_bare_host_will_do() {
    let host = host(0);
    let (answer, executor) = create(&host);
    assert_eq!(answer, status::OK);
    let op = |tail: u64| Longer {
        known: OpDesc {
            size: std::mem::size_of::<Longer<OpDesc>>() as u64,
            name: Str::new("acme.nonzero"),
            origin: Str::EMPTY,
            args: Array::EMPTY,
            inputs: Array::EMPTY,
            outputs: Array::EMPTY,
            numbers: Array::EMPTY,
        },
        tail,
    };
    let make = |op: &Longer<OpDesc>, size: u64| {
        let mut info = KernelInfo {
            size,
            kernel: std::ptr::null_mut(),
            flags: 0,
            in_place: Array::EMPTY,
            output_strides: Array::EMPTY,
        };
        // SAFETY: the executor is alive, both structs have the bytes that they say.
        let answer = unsafe { (table::<KernelV1>(kernel_1::ID).make)(executor, &op.known, &mut info) };
        (answer, info)
    };
    let whole = std::mem::size_of::<KernelInfo>() as u64;
    let (answer, info) = make(&op(0), whole);
    assert_eq!((answer, info.size), (status::OK, whole));
    // SAFETY: just made, not in use.
    assert_eq!(unsafe { (table::<KernelV1>(kernel_1::ID).free)(info.kernel) }, status::OK);
    // What the SDK does not know, and what is too short to hold an answer, is refused, also without `error/1`.
    assert_eq!(make(&op(1), whole).0, status::VERSION);
    assert_eq!(make(&op(0), whole - 8).0, status::VERSION);
    // SAFETY: alive, without kernels.
    assert_eq!(unsafe { (table::<ExecutorV1>(executor_1::ID).destroy)(executor) }, status::OK);
}

#[test]
fn a_host_that_says_more_than_is_known_is_refused() {
    assert_eq!(create(&host(1)).0, status::VERSION);
}
