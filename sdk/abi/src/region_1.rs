//! Table `region/1` of a plugin: what it would rather have as regions.

use crate::basic::{Array, Handle, Status};
use crate::region::RegionDesc;
use abi_stable::StableAbi;
use std::ffi::c_void;

/// Its id.
pub const ID: &str = "region/1";

/// A function that is given one proposal, within the call that it was passed to: the numbers of the ops that shall form a
/// region. Views and numbers need not be named: they go where they are used.
#[repr(transparent)]
#[derive(Clone, Copy, StableAbi)]
pub struct TakeProposal {
    /// The function.
    pub call: unsafe extern "C" fn(to: *mut c_void, ops: Array<u32>) -> Status,
}

/// The table. Absent, or in neither `uses` nor `needs` of the manifest: a region is taken as the host has made it.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RegionV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[may overlap\] Gives each region that it wants of `region` to `take`. Ops in none of them are released. Each proposal
    /// must be convex, an op may stand in one only; the host checks that, and a proposal that is wrong is a fault of the
    /// plugin. `UNSUPPORTED`: no opinion, the region is taken as it is. `ir/1` and `lower/1` are not to be called.
    pub propose: unsafe extern "C" fn(
        executor: Handle,
        region: *const RegionDesc,
        take: TakeProposal,
        to: *mut c_void,
    ) -> Status,
}
