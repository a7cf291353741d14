//! The tables of a plugin: which there can be, and those that one plugin has.

use super::error::LoadError;
use super::find::FoundPlugin;
use super::guard;
use std::path::Path;
use thunderhead_abi::basic::Str;
use thunderhead_abi::bind_1::{self, BindV1};
use thunderhead_abi::claim_1::{self, ClaimV1};
use thunderhead_abi::compile_1::{self, CompileV1};
use thunderhead_abi::entry::EntryV1;
use thunderhead_abi::executor_1::{self, ExecutorV1};
use thunderhead_abi::kernel_1::{self, KernelV1};
use thunderhead_abi::lifecycle_1::{self, LifecycleV1};
use thunderhead_abi::region_1::{self, RegionV1};
use thunderhead_abi::selftest_1::{self, SelftestV1};
use thunderhead_abi::workspace_1::{self, WorkspaceV1};
use thunderhead_abi::{ABI_MAJOR, ABI_MINOR};
use thunderhead_abi::{alloc_1, cancel_1, clock_1, error_1, ir_1, log_1, lower_1, options_1, parallel_1};
use thunderhead_manifest::Kind;

/// Tables of plugins that this host can use.
pub const OF_PLUGINS: [&str; 9] = [
    executor_1::ID,
    claim_1::ID,
    kernel_1::ID,
    bind_1::ID,
    workspace_1::ID,
    compile_1::ID,
    region_1::ID,
    lifecycle_1::ID,
    selftest_1::ID,
];
/// Tables that this host gives.
pub const OF_HOST: [&str; 9] = [
    log_1::ID,
    error_1::ID,
    ir_1::ID,
    lower_1::ID,
    alloc_1::ID,
    parallel_1::ID,
    options_1::ID,
    cancel_1::ID,
    clock_1::ID,
];

/// The tables of one plugin.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    pub executor: &'static ExecutorV1,
    pub kernel: &'static KernelV1,
    pub claim: Option<&'static ClaimV1>,
    pub bind: Option<&'static BindV1>,
    pub workspace: Option<&'static WorkspaceV1>,
    pub compile: Option<&'static CompileV1>,
    pub region: Option<&'static RegionV1>,
    pub lifecycle: Option<&'static LifecycleV1>,
    pub selftest: Option<&'static SelftestV1>,
}

/// Whether this host has all that the manifest says the plugin needs. No code runs.
pub(super) fn check_needs(plugin: &FoundPlugin) -> Result<(), LoadError> {
    for id in &plugin.manifest.needs {
        let table = id.to_string();
        let path = plugin.path.clone();
        if id.is_experimental() {
            return Err(LoadError::ExperimentalTable { path, table });
        }
        if !OF_PLUGINS.contains(&table.as_str()) && !OF_HOST.contains(&table.as_str()) {
            let have = OF_PLUGINS.iter().chain(&OF_HOST).copied().collect::<Vec<_>>().join(", ");
            return Err(LoadError::MissingTable {
                path,
                table,
                whose: format!("this host (ABI {ABI_MAJOR}.{ABI_MINOR})"),
                advice: format!(
                    "use a newer host, or a build of the plugin that can do without; this host has {have}"
                ),
            });
        }
    }
    Ok(())
}

/// Fetches the tables.
pub(super) fn fetch(plugin: &FoundPlugin, entry: &'static EntryV1) -> Result<Tables, LoadError> {
    let path = plugin.path.as_path();
    let missing = |table: &str, advice: &str| LoadError::MissingTable {
        path: path.to_owned(),
        table: table.to_owned(),
        whose: "the plugin itself".to_owned(),
        advice: advice.to_owned(),
    };
    for id in &plugin.manifest.needs {
        let id = id.to_string();
        if OF_PLUGINS.contains(&id.as_str()) && raw(entry, &id).is_null() {
            return Err(missing(
                &id,
                "its manifest lists the table as needed: provide it, or take it off `needs`",
            ));
        }
    }
    // SAFETY: each id goes with its table's type.
    unsafe {
        Ok(Tables {
            executor: table(path, entry, executor_1::ID)?
                .ok_or_else(|| missing(executor_1::ID, "every plugin has it"))?,
            kernel: table(path, entry, kernel_1::ID)?
                .ok_or_else(|| missing(kernel_1::ID, "every plugin has it"))?,
            claim: table(path, entry, claim_1::ID)?,
            bind: table(path, entry, bind_1::ID)?,
            workspace: table(path, entry, workspace_1::ID)?,
            compile: table(path, entry, compile_1::ID)?,
            region: table(path, entry, region_1::ID)?,
            lifecycle: table(path, entry, lifecycle_1::ID)?,
            selftest: table(path, entry, selftest_1::ID)?,
        })
    }
    .and_then(|tables: Tables| check_claims(plugin, tables, missing))
}

/// A claim that asks `check_op` needs somebody to ask.
fn check_claims(
    plugin: &FoundPlugin,
    tables: Tables,
    missing: impl Fn(&str, &str) -> LoadError,
) -> Result<Tables, LoadError> {
    let mut claims = plugin.manifest.executors.iter().flat_map(|executor| &executor.claims);
    if tables.claim.is_none() && claims.any(|claim| claim.check) {
        return Err(missing(claim_1::ID, "a claim says `check = true`: provide the table, or drop that"));
    }
    let fuses = plugin.manifest.executors.iter().any(|executor| executor.kind == Kind::Fusion);
    if tables.compile.is_none() && fuses {
        return Err(missing(
            compile_1::ID,
            "an executor is of kind `fusion`: provide the table, or say `op`",
        ));
    }
    Ok(tables)
}

fn raw(entry: &EntryV1, id: &str) -> *const std::ffi::c_void {
    // SAFETY: the plugin's function; the id is readable during the call.
    unsafe { (entry.get_table)(Str::new(id)) }
}

/// # Safety
/// The table behind `id` must be a `T`.
unsafe fn table<T>(path: &Path, entry: &EntryV1, id: &str) -> Result<Option<&'static T>, LoadError> {
    let found = raw(entry, id);
    if found.is_null() {
        return Ok(None);
    }
    let wrong_size = |found: u64| LoadError::StructSize {
        path: path.to_owned(),
        what: id.to_owned(),
        found,
        expected: std::mem::size_of::<T>() as u64,
        abi: format!("{ABI_MAJOR}.{ABI_MINOR}"),
    };
    if !found.cast::<u64>().is_aligned() {
        return Err(wrong_size(0));
    }
    // SAFETY: aligned, and each table starts with its size.
    let size = unsafe { found.cast::<u64>().read() };
    // Tables never grow (rule V8): another size is another table.
    if size != std::mem::size_of::<T>() as u64 {
        return Err(wrong_size(size));
    }
    // SAFETY: that many bytes by its own word; each table is its size and then functions.
    if unsafe { guard::first_null(found.cast(), 8, size as usize) }.is_some() {
        let why = format!("a function of its table {id} is null");
        return Err(LoadError::NoEntry { path: path.to_owned(), why });
    }
    // SAFETY: a `T` by the caller's word, alive as long as the process by the entry's contract.
    Ok(Some(unsafe { &*found.cast::<T>() }))
}
