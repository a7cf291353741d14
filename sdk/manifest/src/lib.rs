//! Plugin manifests: the text that every Thunderhead plugin embeds, and what it says.
//!
//! A manifest names a plugin and its executors and declares, once, what each of them claims. The host decides
//! from this text whether to load a file and whom to ask for an op; the SDK checks the same text when a plugin
//! is tested. Both read it with this crate, so that there is one meaning.
//!
//! ```
//! use thunderhead_manifest::{Manifest, Operand};
//!
//! let text = r#"
//!     manifest = 1
//!     id = "acme-blas"
//!     version = "0.3.1"
//!     abi = "1.0"
//!     ir = "1"
//!     needs = ["executor/1", "kernel/1"]
//!
//!     [[executor]]
//!     name = "acme_blas"
//!
//!     [[executor.claim]]
//!     ops = ["torch.linear", "aten.special_*"]
//!     dtypes = ["f32", "bf16"]
//!     ranks = [2, 4]
//! "#;
//! let (manifest, warnings) = Manifest::parse(text)?;
//! assert!(warnings.is_empty());
//!
//! let executor = manifest.executor("acme_blas").expect("declared above");
//! let f32_matrix = Operand { dtype: "f32", device: "cpu", rank: 2 };
//! assert!(executor.limits("torch.linear", [f32_matrix; 2]).is_ok());
//!
//! let f64_matrix = Operand { dtype: "f64", ..f32_matrix };
//! let refusal = executor.limits("torch.linear", [f32_matrix, f64_matrix]).unwrap_err();
//! assert_eq!(refusal.code(), "claim::dtype_unsupported");
//! assert_eq!(refusal.to_string(), "input 1 is f64; it takes f32, bf16");
//! # Ok::<(), thunderhead_manifest::ManifestErrors>(())
//! ```
//!
//! Deliberately not here: files, the ABI, what an op is, and what other executors claim (`like` is kept as
//! names).

pub mod document;
mod glob;
mod limits;
mod manifest;
mod parse;

pub use document::{Fault, FaultKind, Located, Place, Plain};
pub use glob::Glob;
pub use limits::{LimitRefusal, Operand};
pub use manifest::{
    Alias, Claim, ExecutorDecl, FORMAT, Kind, Layout, Library, Manifest, OptionDecl, OptionKind,
    OptionMismatch, RESERVED_EXECUTORS, RegionRules, TableId, Version,
};
pub use parse::{
    DTYPES, ManifestErrors, Warning, is_executor_name, is_label, is_plugin_id, read_region_rules,
};
