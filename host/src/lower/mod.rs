//! From a claimed trace to an execution trace: flat, in order, regions formed and turned into steps.
//!
//! Ops taken apart are replaced by their parts; what a part yields takes the name of the composite's result. Values
//! that nobody needs are gone, so a part whose result is unused costs nothing. Ops of fusion executors stand in regions
//! ([`regions`]); a region is described to its executor ([`spec`]), which answers with steps ([`lowering`]): own kernels,
//! whatever these are to who uses this room, and ops that it hands on. Deliberately absent: addresses, sizes in bytes.

pub mod dels;
pub mod flatten;
pub mod inline;
pub mod lowering;
pub mod present;
pub mod regions;
pub mod spec;

pub use dels::with_dels;
pub use flatten::{Flat, Origin, flatten};
pub use inline::{EmptyRegion, inline};
pub use lowering::{LoweredRegion, LoweredStep, Lowering, Parts, Refused};
pub use present::{RegionNotes, present};
pub use regions::{Counters, FormError, Forming, GivenNames, Lowered, ProposeError, Region, form, release};
pub use spec::{HostPart, RegionError, RegionOp, RegionSpec, RegionValue, Sizes};
