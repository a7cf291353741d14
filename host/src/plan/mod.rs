//! The plan: everything that can be decided before a run.
//!
//! From an execution trace with known sizes: views resolved to strides, copies where a kernel's layout needs them,
//! kernels made, lifetimes, one arena, in-place reuse. A plan holds no pointer: buffers are offsets into an arena, or
//! named by the parameter or output that they are. A trace whose sizes become known only when it runs is planned in
//! segments, each when its sizes are known. Deliberately absent: addresses, running.

pub mod arena;
pub mod build;
pub mod diff;
pub mod file;
pub mod fuse;
pub mod port;
pub mod segment;

pub use build::{
    BufferPlan, CopyRecord, KernelStep, NestedResult, NestedStep, NumberSource, Place, Plan, PlanError,
    PlanInput, Step, View, Write, build,
};
pub use diff::{OpDiff, PlanDiff, TotalDiff};
pub use file::{PlanFile, PlannedCopy, PlannedOp, PlannedRefusal, PlannedRegion, PlannedStep, PlannedView};
pub use fuse::{FuseInput, Fused, RegionPlan, RegionStep, fuse, fuse_all};
pub use port::{
    Bound, Constant, Fault, FaultKind, Io, Kernel, KernelInfo, KernelMaker, Number, Parallel, RunContext,
};
pub use segment::{Segment, segments};
