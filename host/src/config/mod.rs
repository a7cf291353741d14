//! The config: which executors there are, in which order they are asked, and how they are set.
//!
//! `file` reads what was typed, `chain` follows a config to the presets and files it is based on, `resolved`
//! works out what all of it means once the manifests of the plugins are known. Every value keeps where it came
//! from, and every fault is reported, in source order, before any plugin code runs.
//!
//! Deliberately not here: looking for plugins, and looking at the machine: `chain` is handed a function that
//! reads and [`Surroundings`] as plain data. `world` holds the real ones, for the façade to pass in.

mod chain;
mod fault;
mod file;
mod known;
mod op_names;
mod overlay;
mod resolve;
mod resolved;
mod show;
mod world;

pub use chain::{Chain, Start, Surroundings};
pub use fault::{ConfigErrors, ConfigFault, Notice, Problem, Source, Spot};
pub use file::{ExpectedClaim, LastResort, LogLevel, OnError, Policy, keys};
pub use op_names::{Meaning, OpNames};
pub use overlay::Overlay;
pub use resolved::{Because, Expect, Loaded, Origin, Resolved, Settings, Sourced};
pub use world::read_text;

/// The presets that are built in, by name. Copies of them in a `configs` folder beside the executable win.
pub const PRESETS: [(&str, &str); 6] = [
    ("concat_inductor", include_str!("../../../configs/concat_inductor.toml")),
    ("default", include_str!("../../../configs/default.toml")),
    ("full_fusion", include_str!("../../../configs/full_fusion.toml")),
    ("pytorch", include_str!("../../../configs/pytorch.toml")),
    ("reference", include_str!("../../../configs/reference.toml")),
    ("torch_compile", include_str!("../../../configs/torch_compile.toml")),
];
