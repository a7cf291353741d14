//! From a claimed trace to an execution trace: flat, in order, one executor an op.
//!
//! Ops taken apart are replaced by their parts; what a part yields takes the name of the composite's result. Values
//! that nobody needs are gone, so a part whose result is unused costs nothing. Deliberately absent: addresses, sizes in
//! bytes. Regions and delegated ops will be lowered here.

pub mod dels;
pub mod flatten;

pub use dels::with_dels;
pub use flatten::{Lowered, Origin, flatten};
