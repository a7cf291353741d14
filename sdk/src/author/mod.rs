//! What an author writes a plugin with; re-exported at the crate's root.

mod error;
pub use error::{Error, ErrorKind, Refusal};
mod dtype;
pub use dtype::{Device, Dtype};
mod element;
pub use element::{Bool, Element};
mod op;
pub(crate) use op::ints;
pub use op::{ArgRef, Ints, Lists, Number, NumberDesc, NumberKind, Op, Strs, TensorDesc};
mod region;
pub use region::{Decomposition, OpId, Region, RegionOp, Step, Steps, Value, ValueId};
mod executor;
pub use executor::{Bound, Executor, Kernel};
mod create;
pub use create::{Create, Log, Options};
mod call;
pub use call::{Binding, Call, Inputs, Outputs, Parallel, Parts};
mod view;
pub(crate) use view::check as check_view;
pub use view::{Elements, ElementsMut, Iter, View, ViewMut, dense_strides};
pub mod walk;
pub use walk::Walk;
pub(crate) mod border;
mod export;
mod log_bridge;
mod services;

/// What the macros expand to. Not for authors.
#[doc(hidden)]
pub mod __private {
    pub use super::border::{ExecutorDecl, Plugin, entry_of};
    pub use thunderhead_abi::abi_stable::library::{LibHeader, RootModuleResult};
    pub use thunderhead_abi::entry::{EntryV1, door, door_result};
    pub use thunderhead_abi::probe::{Manifest, Probe};

    /// The probe of a plugin built with this SDK.
    pub const fn probe(aborts: bool) -> Probe {
        use thunderhead_abi::probe::panics;
        let panics = if aborts { panics::ABORT } else { panics::UNWIND };
        Probe::new(panics, env!("CARGO_PKG_VERSION"), thunderhead_abi::COMPILER, thunderhead_abi::TARGET)
    }

    /// The header for abi_stable's door; `constructor` comes from `export_plugin!` only.
    pub const fn door_header_of(constructor: extern "C" fn() -> RootModuleResult) -> LibHeader {
        // SAFETY: `export_plugin!` passes a function that returns `door_result`.
        unsafe { thunderhead_abi::entry::door_header(constructor) }
    }
}
