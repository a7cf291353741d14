//! `export_plugin!` and `define_plugin!`: from a manifest and some types to a plugin.

/// Defines a plugin without exporting anything: a function `entry()` and a constant `MANIFEST` where it stands. For a
/// plugin that is linked into the host, or that another crate exports.
///
/// ```
/// # use thunderhead_sdk::{Create, Error, Executor, Kernel, Op};
/// # struct Acme;
/// # impl Executor for Acme {
/// #     fn create(_: &Create<'_>) -> Result<Self, Error> { Ok(Acme) }
/// #     fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> { Err(Error::unsupported("none yet")) }
/// # }
/// thunderhead_sdk::define_plugin! {
///     manifest: include_str!("../../plugin.toml"), // wherever it lies, seen from here
///     executors: { "acme" => Acme },
/// }
/// # fn main() {
/// assert!(MANIFEST.contains("acme-relu"));
/// let _ = entry();
/// # }
/// ```
#[macro_export]
macro_rules! define_plugin {
    (manifest: $manifest:expr, executors: { $($name:literal => $executor:ty),+ $(,)? } $(,)?) => {
        $crate::define_plugin! { @owns_log: false, manifest: $manifest, executors: { $($name => $executor),+ } }
    };
    (@owns_log: $owns_log:literal, manifest: $manifest:expr, executors: { $($name:literal => $executor:ty),+ }) => {
        /// The plugin's manifest.
        pub const MANIFEST: &str = $manifest;

        const _: () = $crate::__private::check_manifest(MANIFEST, &[$($name),+]);

        /// The plugin's entry, as the host takes it.
        pub fn entry() -> &'static $crate::__private::EntryV1 {
            struct ThisPlugin;
            impl $crate::__private::Plugin for ThisPlugin {
                const MANIFEST: &'static str = MANIFEST;
                const EXECUTORS: &'static [$crate::__private::ExecutorDecl] =
                    &[$($crate::__private::ExecutorDecl::of::<$executor>($name)),+];
                const OWNS_LOG: bool = $owns_log;
            }
            const { $crate::__private::entry_of::<ThisPlugin>() }
        }
    };
}

/// Makes the crate, a `cdylib`, a plugin: embeds the manifest and the probe, and exports both doors. Once a crate.
///
/// ```
/// # use thunderhead_sdk::{Create, Error, Executor, Kernel, Op};
/// # struct Acme;
/// # impl Executor for Acme {
/// #     fn create(_: &Create<'_>) -> Result<Self, Error> { Ok(Acme) }
/// #     fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> { Err(Error::unsupported("none yet")) }
/// # }
/// thunderhead_sdk::export_plugin! {
///     manifest: include_str!("../../plugin.toml"),
///     executors: { "acme" => Acme },
/// }
/// ```
///
/// A manifest that does not name the executors is none, and does not compile:
///
/// ```compile_fail
/// # use thunderhead_sdk::{Create, Error, Executor, Kernel, Op};
/// # struct Acme;
/// # impl Executor for Acme {
/// #     fn create(_: &Create<'_>) -> Result<Self, Error> { Ok(Acme) }
/// #     fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> { Err(Error::unsupported("none yet")) }
/// # }
/// thunderhead_sdk::export_plugin! {
///     manifest: "manifest = 1",
///     executors: { "acme" => Acme },
/// }
/// ```
///
/// A plugin that [`define_plugin!`](crate::define_plugin) has defined elsewhere is exported by
/// `export_plugin! { manifest: other::MANIFEST, entry: other::entry }`.
#[macro_export]
macro_rules! export_plugin {
    (manifest: $manifest:expr, executors: { $($name:literal => $executor:ty),+ $(,)? } $(,)?) => {
        // A block and not a module: the executors' types are then found wherever the line stands.
        const _: () = {
            $crate::define_plugin! { @owns_log: true, manifest: $manifest, executors: { $($name => $executor),+ } }
            $crate::export_plugin! { manifest: MANIFEST, entry: entry }
        };
    };
    (manifest: $manifest:expr, entry: $entry:path $(,)?) => {
        const _: () = {
            const EXPORTED: &str = $manifest;

            #[used]
            #[unsafe(no_mangle)]
            #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__th_probe"))]
            #[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".thunderhead.probe"))]
            static thunderhead_probe: $crate::__private::Probe = $crate::__private::probe(cfg!(panic = "abort"));

            #[used]
            #[unsafe(no_mangle)]
            #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__th_manifest"))]
            #[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".thunderhead.manifest"))]
            static thunderhead_manifest: $crate::__private::Manifest<{ EXPORTED.len() }> =
                $crate::__private::Manifest::new(EXPORTED);

            #[unsafe(no_mangle)]
            extern "C" fn thunderhead_entry_v1() -> *const $crate::__private::EntryV1 {
                $entry()
            }

            extern "C" fn door() -> $crate::__private::RootModuleResult {
                $crate::__private::door_result(|| $crate::__private::door($entry()))
            }

            #[used]
            #[unsafe(no_mangle)]
            static _1as_0lib_1header_0root_bmodule_bloader: $crate::__private::LibHeader =
                $crate::__private::door_header_of(door);
        };
    };
}
