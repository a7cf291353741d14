//! What `compile/1` and `region/1` see of a region: its values, its ops, what goes in and out.
//!
//! Invariants: values and ops are numbered from 0 within one region; what a decomposition or a temporary adds gets the
//! next numbers, so no number ever changes its meaning. Every op's `inputs` and `outputs` go with those of its `OpDesc`.
//! Ops are in an order in which each value is defined before it is used. All of it lives until the call returns that was
//! given the region.

use crate::basic::{Array, Str};
use crate::op::{NumberDesc, OpDesc, TensorDesc};
use abi_stable::StableAbi;

/// Bits of [`RegionValue::flags`].
pub mod value_flags {
    /// Made outside of the region.
    pub const INPUT: u64 = 1;
    /// Wanted outside of the region. Some step must write its base.
    pub const OUTPUT: u64 = 2;
    /// A view of [`RegionValue::base`](super::RegionValue::base): never written by a step.
    pub const VIEW: u64 = 4;
}

/// Bits of [`RegionOp::flags`].
pub mod region_op_flags {
    /// Only a view, as strides stand: the host's. Nothing has to be done for it.
    pub const VIEW: u64 = 1;
    /// Works out numbers: the host's.
    pub const NUMBER: u64 = 2;
    /// Has a decomposition (`ir/1`'s `decompose`).
    pub const COMPOSITE: u64 = 4;
}

/// A tensor of a region.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RegionValue {
    /// Dims and strides are known in `compile/1`; strides are null in `region/1`, where dims may be unknown. A pointer, so
    /// that either struct may grow.
    pub tensor: *const TensorDesc,
    /// The value whose memory it lies in; itself where it is no view.
    pub base: u32,
    /// 0.
    pub reserved: u32,
    /// From the first element of `base` to its own, in elements of its own dtype.
    pub offset_elems: i64,
    /// See [`value_flags`].
    pub flags: u64,
}

/// An op of a region, or of a decomposition.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RegionOp {
    /// The op. Its numbers are those of the region, its slots index them.
    pub op: *const OpDesc,
    /// For each of `op.inputs` the value.
    pub inputs: Array<u32>,
    /// For each of `op.outputs` the value.
    pub outputs: Array<u32>,
    /// See [`region_op_flags`].
    pub flags: u64,
}

/// A region.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RegionDesc {
    /// Bytes of this struct as the host has it.
    pub size: u64,
    /// `FullFusion0`; empty for a single op that another executor has handed on.
    pub name: Str,
    /// All tensors, by number.
    pub values: Array<RegionValue>,
    /// All ops, by number.
    pub ops: Array<RegionOp>,
    /// Values made outside, each once.
    pub inputs: Array<u32>,
    /// Values wanted outside, each once.
    pub outputs: Array<u32>,
    /// Numbers known only at run, by slot.
    pub numbers: Array<NumberDesc>,
}

/// What an op decomposes into, one level down.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct BlockDesc {
    /// Bytes of this struct as the host has it.
    pub size: u64,
    /// Number of the first op of `ops`.
    pub first_op: u32,
    /// Number of the first value of `values`.
    pub first_value: u32,
    /// The parts, in order.
    pub ops: Array<RegionOp>,
    /// Tensors that are new. The results of the op itself keep their numbers where a part makes them.
    pub values: Array<RegionValue>,
    /// For each tensor result of the op, the value that stands for it: the result's own number where a part makes it;
    /// else another value, which the result is a copy of.
    pub yields: Array<u32>,
    /// The numbers of the region, as far as they are known by now.
    pub numbers: Array<NumberDesc>,
}
