//! The rules of the ABI: what a plugin author can rely on, and what each side owes. Numbered, so that messages, commits
//! and issues can name them; behind each stands the test that breaks when it is broken.
//!
//! **V1. The ABI's version is its own.** It is the version of `thunderhead-abi`, never that of the host or of the SDK.
//! *Test:* `crate_version_is_the_abis` (`thunderhead-abi`).
//!
//! **V2. Released tables are never edited.** A table is its id, `name/revision`. A new need is a new id: `kernel/2`
//! beside `kernel/1`. *Test:* `header_and_crate_agree` (sizes and offsets of every table), and the museum of V11.
//!
//! **V3. A host of major M loads every plugin of major M that needs only tables it has.** The manifest lists what the
//! plugin cannot do without as `needs`, what it uses where it is there as `uses`. While the major is 0, each minor is a
//! major of its own: only an equal 0.N loads. *Tests:* `files_that_show_it` (`abi_major`, `abi_minor`),
//! `manifests_that_show_it` (`needs`, `newer`).
//!
//! **V4. Old revisions are kept for two years** after their successor was released. *Test:* the museum of V11.
//!
//! **V5. Absent optional functions have documented defaults.** `claim/1` absent: the manifest is the whole truth;
//! `bind/1`: the kernel's own `run` is called; `workspace/1`: no scratch; `lifecycle/1` and `selftest/1`: nothing to
//! do. Of the host's tables an absent `parallel/1` means one thread, `cancel/1` never, `log/1` nowhere, `error/1` no
//! message. *Tests:* `a_c_plugin_on_the_header_alone_runs` (has three tables), `a_bare_host_will_do`.
//!
//! **V6. The IR has a version of its own**: ops, schemas and meanings. A plugin says which it understands; a host
//! speaks one, and takes plugins of the same major that ask no newer minor. *Test:* `manifests_that_show_it` (`ir`).
//!
//! **V7. Ids that start `x-` are experimental.** They may change from day to day, and need an opt-in of the host.
//! *Test:* `manifests_that_show_it` (`gossip`).
//!
//! **V8. Tables never grow; other structs may, at their end.** Zero in a new field means what its absence meant. A
//! longer struct with a zero tail is taken, one with a non-zero tail that the reader does not know is refused
//! (`version`); who fills a struct writes no more than the size its owner set; a struct smaller than first released is
//! refused. Arrays carry their element stride, so elements may grow, too. A minor version adds tables and fields.
//! *Tests:* `doors_that_show_it` (`size`), `longer_structs_are_taken_shorter_ones_refused`.
//!
//! **V9. The compiler's version is shown, not compared.** Compared are the target triple, the panic strategy, and the
//! shared libraries that the manifest declares. *Tests:* `files_that_show_it` (`target`, `panics`),
//! `declared_libraries_are_found_compared_and_opened`.
//!
//! **V10. Every refusal has a code, both values and the fix.** *Test:* `tests/faults.rs` compares codes and words of
//! every refusal of the loader.
//!
//! **V11. Binaries of every released ABI stay in `tests/museum`, and must load.** Nothing is released yet.
//!
//! # Threads
//!
//! At each function of an author's traits and of the tables stands how it may be called. In short: `create`,
//! `available`, `selftest` and `quiesce` never beside each other for one executor; `check`, `kernel` and `Kernel::run`
//! beside anything; a bound object by one run at a time.
//!
//! A plugin installs no global logger, signal handler, panic hook or exit handler. What it must set for the whole
//! process it sets once, in `create`, and declares as `process_wide`.
//!
//! # Panics
//!
//! Each function that crosses catches panics and answers `panic` with the message. The host then **quarantines** the
//! executor: no function of it is called again, what it made is leaked, runs that use its kernels fail with
//! `run::plugin_panicked`, new programs are compiled without it. Say what is not done with [`Error`](crate::Error) or
//! [`Refusal`](crate::Refusal), not with a panic. A plugin built with `panic = "abort"` is not loaded.
