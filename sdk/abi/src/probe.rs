//! Layer 0: what is read from a plugin's file without loading it.
//!
//! Two exported statics, each in a section of its own: the [`Probe`] and the manifest's text after a [`ManifestHead`].
//! Invariants: inline bytes only, no pointer, integers little-endian whatever the machine, so that any host reads
//! any plugin: of another architecture, with libraries missing, or of an ABI to come. The first 24 bytes of the probe
//! keep their meaning for ever.

/// Exported name of the probe.
pub const PROBE_SYMBOL: &str = "thunderhead_probe";
/// ELF section of the probe.
pub const PROBE_SECTION: &str = ".thunderhead.probe";
/// Exported name of the manifest.
pub const MANIFEST_SYMBOL: &str = "thunderhead_manifest";
/// ELF section of the manifest.
pub const MANIFEST_SECTION: &str = ".thunderhead.manifest";

/// First bytes of a probe.
pub const PROBE_MAGIC: [u8; 8] = *b"THUNDRpb";
/// First bytes of a manifest.
pub const MANIFEST_MAGIC: [u8; 8] = *b"THUNDRmf";

/// Values of [`Probe::panics`].
pub mod panics {
    /// Panics unwind and are caught at the border.
    pub const UNWIND: u32 = 1;
    /// Panics end the process: such plugins are refused.
    pub const ABORT: u32 = 2;
    /// The language has none (C).
    pub const NONE: u32 = 3;
}

/// What the loader compares before it opens the file. Texts are UTF-8, padded with zeros.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Probe {
    /// [`PROBE_MAGIC`].
    pub magic: [u8; 8],
    /// Bytes of this struct, little-endian.
    pub size: [u8; 4],
    /// Little-endian.
    pub abi_major: [u8; 4],
    /// Little-endian.
    pub abi_minor: [u8; 4],
    /// See [`panics`]; little-endian.
    pub panics: [u8; 4],
    /// `0.1.0`, or `c 0.2` for the header.
    pub sdk_version: [u8; 32],
    /// `rustc 1.90.0 (…)`, shown, not compared.
    pub compiler: [u8; 96],
    /// Target triple, compared.
    pub target: [u8; 64],
}

/// Stands before the manifest's text in its section.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ManifestHead {
    /// [`MANIFEST_MAGIC`].
    pub magic: [u8; 8],
    /// Bytes of the text that follows, little-endian.
    pub len: [u8; 8],
}

/// A manifest of `N` bytes as it stands in its section.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Manifest<const N: usize> {
    /// Magic and length.
    pub head: ManifestHead,
    /// The text.
    pub text: [u8; N],
}

impl<const N: usize> Manifest<N> {
    /// Lays out `text`, which must be `N` bytes (checked when compiled).
    pub const fn new(text: &str) -> Self {
        assert!(text.len() == N, "N is the length of the text");
        let mut bytes = [0; N];
        let mut idx = 0;
        while idx < N {
            bytes[idx] = text.as_bytes()[idx];
            idx += 1;
        }
        Manifest { head: ManifestHead { magic: MANIFEST_MAGIC, len: (N as u64).to_le_bytes() }, text: bytes }
    }
}

impl Probe {
    /// A probe of this ABI version. Texts longer than their field are cut.
    pub const fn new(panics: u32, sdk_version: &str, compiler: &str, target: &str) -> Probe {
        Probe {
            magic: PROBE_MAGIC,
            size: (std::mem::size_of::<Probe>() as u32).to_le_bytes(),
            abi_major: crate::ABI_MAJOR.to_le_bytes(),
            abi_minor: crate::ABI_MINOR.to_le_bytes(),
            panics: panics.to_le_bytes(),
            sdk_version: padded(sdk_version),
            compiler: padded(compiler),
            target: padded(target),
        }
    }
}

const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut idx = 0;
    while idx < text.len() && idx < N {
        bytes[idx] = text.as_bytes()[idx];
        idx += 1;
    }
    bytes
}
