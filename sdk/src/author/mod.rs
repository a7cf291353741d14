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

    /// Stops the compiler where the manifest does not so much as name an executor: a placeholder would only be found when
    /// the plugin is looked for, as an executor that nobody brings.
    pub const fn check_manifest(manifest: &str, executors: &[&str]) {
        let mut at = 0;
        while at < executors.len() {
            assert!(
                holds_quoted(manifest.as_bytes(), executors[at].as_bytes()),
                "the manifest declares no executor of a name that stands under `executors`: give the text of \
                 plugin.toml, as `include_str!(\"../plugin.toml\")` does"
            );
            at += 1;
        }
    }

    /// Whether the text has the name between quotation marks of one kind.
    const fn holds_quoted(text: &[u8], name: &[u8]) -> bool {
        let mut start = 0;
        while start + name.len() + 2 <= text.len() {
            let quote = text[start];
            if (quote == b'"' || quote == b'\'') && text[start + name.len() + 1] == quote {
                let mut i = 0;
                while i < name.len() && text[start + 1 + i] == name[i] {
                    i += 1;
                }
                if i == name.len() {
                    return true;
                }
            }
            start += 1;
        }
        false
    }

    /// The header for abi_stable's door; `constructor` comes from `export_plugin!` only.
    pub const fn door_header_of(constructor: extern "C" fn() -> RootModuleResult) -> LibHeader {
        // SAFETY: `export_plugin!` passes a function that returns `door_result`.
        unsafe { thunderhead_abi::entry::door_header(constructor) }
    }
}
