//! Whether a name or glob that somebody typed can mean an op at all.
//!
//! Three kinds of ops have names: those of the table, those that plugins claim, and those that only a model knows
//! (`aten.…` and ops of other namespaces, imported as opaque symbols). A name in a namespace of the table is therefore
//! known or mistyped; of all other names nobody here can tell. The names are handed in: this room looks at no table.

use std::collections::BTreeSet;

use thunderhead_manifest::document::nearest;
use thunderhead_manifest::{Glob, Manifest};

/// The names of ops that mean something.
pub struct OpNames<'n> {
    names: BTreeSet<&'n str>,
    namespaces: BTreeSet<&'n str>,
    /// Globs that plugins claim beyond the table.
    claimed: Vec<&'n Glob>,
}

/// What a name or glob can mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// An op, as far as can be seen from here.
    Op,
    /// No op is or will be called so. What to write instead.
    Unknown { advice: String },
    /// A glob that matches no op known here, or a name of a namespace that nobody here knows.
    Nothing,
}

impl<'n> OpNames<'n> {
    /// The table's names.
    pub fn new(names: impl IntoIterator<Item = &'n str>) -> OpNames<'n> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let namespaces =
            names.iter().filter_map(|name| name.split_once('.')).map(|(space, _)| space).collect();
        OpNames { names, namespaces, claimed: Vec::new() }
    }

    /// With what these manifests claim: a plugin may know more ops than this host.
    pub fn with_claims(mut self, manifests: &[&'n Manifest]) -> OpNames<'n> {
        let executors = manifests.iter().flat_map(|manifest| &manifest.executors);
        self.claimed = executors.flat_map(|executor| &executor.claims).flat_map(|claim| &claim.ops).collect();
        self
    }

    /// What a name or glob can mean. With no table at all, everything means something.
    pub fn meaning(&self, glob: &Glob) -> Meaning {
        let text = glob.as_str();
        let is_claimed =
            || self.claimed.iter().any(|claim| claim.as_str() == text || glob.matches(claim.as_str()));
        if self.names.is_empty() || is_claimed() {
            return Meaning::Op;
        }
        if !glob.is_exact() {
            let opaque = ["aten.", "vjp.aten.", "*"].iter().any(|head| text.starts_with(head));
            let matches = opaque || self.names.iter().any(|name| glob.matches(name));
            return if matches { Meaning::Op } else { Meaning::Nothing };
        }
        if self.names.contains(text) || self.claimed.iter().any(|claim| claim.matches(text)) {
            return Meaning::Op;
        }
        let space = text.split(['.', ':']).next().unwrap_or(text);
        if space == "aten" || text.starts_with("vjp.aten.") {
            let overload = text.strip_prefix("vjp.").unwrap_or(text);
            let is_overload =
                overload.split('.').count() == 3 && overload.split('.').all(|part| !part.is_empty());
            let advice =
                || format!("an ATen op is named with its overload: `{text}.default`, or `{text}.*` for all");
            return if is_overload { Meaning::Op } else { Meaning::Unknown { advice: advice() } };
        }
        if space == text || self.namespaces.contains(space) {
            return Meaning::Unknown { advice: self.advice(text) };
        }
        Meaning::Nothing
    }

    /// The nearest name; for a bare `softmax` the one that ends so.
    fn advice(&self, text: &str) -> String {
        let bare = |name: &&&str| name.split_once('.').is_some_and(|(_, rest)| rest == text);
        let near = self.names.iter().rev().find(bare).copied();
        match near.or_else(|| nearest(text, self.names.iter().copied())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`thunderhead ops` lists them all".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_mistyped_or_nobodys() {
        let names = ["torch.relu", "torch.softmax", "prims.exp", "num.add"];
        let head = "manifest = 1\nid = 'x'\nversion = '1.0'\nabi = '0.2'\nir = '1'\n";
        let text = "[[executor]]\nname = 'acme'\nclaim = [{ ops = ['torch.newer', 'acme::rope', 'aten.special_*'] }]\n";
        let manifest = Manifest::parse(&format!("{head}{text}")).expect("a manifest").0;
        let names = OpNames::new(names).with_claims(&[&manifest]);
        let said = |text: &str| match names.meaning(&Glob::new(text)) {
            Meaning::Op => "op".to_owned(),
            Meaning::Nothing => "nothing".to_owned(),
            Meaning::Unknown { advice } => advice,
        };
        for known in [
            "torch.relu",
            "torch.newer",
            "acme::rope",
            "torch.r*",
            "*",
            "aten.*",
            "aten.foo.default",
            "vjp.aten.foo.default",
        ] {
            assert_eq!(said(known), "op", "{known}");
        }
        for nothing in ["torch.x*", "prims.?", "other::op", "other.op.default"] {
            assert_eq!(said(nothing), "nothing", "{nothing}");
        }
        assert_eq!(said("torch.rleu"), "did you mean `torch.relu`?");
        assert_eq!(said("softmax"), "did you mean `torch.softmax`?");
        assert_eq!(said("FullFusion0"), "`thunderhead ops` lists them all");
        assert_eq!(
            said("aten.foo"),
            "an ATen op is named with its overload: `aten.foo.default`, or `aten.foo.*` for all"
        );
        assert_eq!(OpNames::new([]).meaning(&Glob::new("torch.rleu")), Meaning::Op);
    }
}
