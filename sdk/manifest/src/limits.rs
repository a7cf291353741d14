//! Static limits of claims: what can be answered from the manifest alone, without a call into the plugin.
//!
//! The host walks hundreds of thousands of ops, each past several executors, so exact op names are hashed once
//! and globs are tried only for names that no claim lists. The order of claims in the manifest decides among
//! several that match.

use std::borrow::Cow;
use std::fmt;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::document::one_of;
use crate::glob::Glob;
use crate::manifest::{Claim, ExecutorDecl};

/// One tensor input as static limits see it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Dtype name as in traces, `f32`.
    pub dtype: &'a str,
    /// `cpu`, or kind and index as `cuda:0`.
    pub device: &'a str,
    pub rank: u32,
}

/// Why static limits keep an executor from an op.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum LimitRefusal {
    /// No claim names the op.
    OpUnknown,
    /// A tensor input on a device that no matching claim lists.
    Device { input_idx: usize, found: String, allowed: Vec<String> },
    /// A tensor input of a dtype that no matching claim lists.
    Dtype { input_idx: usize, found: String, allowed: Vec<String> },
    /// A tensor input with too few or too many dims.
    Rank { input_idx: usize, found: u32, lowest: u32, highest: u32 },
}

impl LimitRefusal {
    /// The refusal's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            LimitRefusal::OpUnknown => "claim::op_unknown",
            LimitRefusal::Device { .. } => "claim::device_unsupported",
            LimitRefusal::Dtype { .. } => "claim::dtype_unsupported",
            LimitRefusal::Rank { .. } => "claim::rank_unsupported",
        }
    }

    /// How many of the limits were met before this one, in the order in which they are looked at. Of several
    /// claims the one that came farthest explains best why there was no match.
    fn progress(&self) -> u8 {
        match self {
            LimitRefusal::OpUnknown => 0,
            LimitRefusal::Device { .. } => 1,
            LimitRefusal::Dtype { .. } => 2,
            LimitRefusal::Rank { .. } => 3,
        }
    }

    /// The better explanation of two; what two claims allow between them is said together.
    fn or(self, other: LimitRefusal) -> LimitRefusal {
        use LimitRefusal::{Device, Dtype, Rank};
        match (self, other) {
            (
                Dtype { input_idx, found, allowed: ours },
                Dtype { input_idx: other_idx, allowed: theirs, .. },
            ) if input_idx == other_idx => Dtype { input_idx, found, allowed: union(ours, theirs) },
            (
                Device { input_idx, found, allowed: ours },
                Device { input_idx: other_idx, allowed: theirs, .. },
            ) if input_idx == other_idx => Device { input_idx, found, allowed: union(ours, theirs) },
            (
                Rank { input_idx, found, lowest, highest },
                Rank { input_idx: other_idx, lowest: low, highest: high, .. },
            ) if input_idx == other_idx => {
                Rank { input_idx, found, lowest: lowest.min(low), highest: highest.max(high) }
            }
            (ours, theirs) if theirs.progress() > ours.progress() => theirs,
            (ours, _) => ours,
        }
    }
}

fn union(mut ours: Vec<String>, theirs: Vec<String>) -> Vec<String> {
    for item in theirs {
        if !ours.contains(&item) {
            ours.push(item);
        }
    }
    ours
}

impl fmt::Display for LimitRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitRefusal::OpUnknown => f.write_str("not in its manifest"),
            LimitRefusal::Device { input_idx, found, allowed } => {
                write!(f, "input {input_idx} is on `{found}`; it takes {}", one_of(allowed))
            }
            LimitRefusal::Dtype { input_idx, found, allowed } => {
                write!(f, "input {input_idx} is {found}; it takes {}", allowed.join(", "))
            }
            LimitRefusal::Rank { input_idx, found, lowest, highest } => {
                write!(f, "input {input_idx} has {found} dims; it takes {lowest} to {highest}")
            }
        }
    }
}

impl Claim {
    /// Whether one of the claim's names or globs is the op's.
    pub fn names(&self, op: &str) -> bool {
        self.ops.iter().any(|glob| glob.matches(op))
    }

    /// Whether the op on these tensor inputs is within the claim's limits. `check` is not looked at: where it
    /// is set the answer is preliminary.
    pub fn limits<'a>(
        &self,
        op: &str,
        inputs: impl IntoIterator<Item = Operand<'a>>,
    ) -> Result<(), LimitRefusal> {
        if !self.names(op) {
            return Err(LimitRefusal::OpUnknown);
        }
        self.operand_limits(inputs)
    }

    /// The limits on the inputs alone, for an op that the claim is known to name. The first fault in the order
    /// device, dtype, rank is reported, at the first input that has it.
    fn operand_limits<'a>(&self, inputs: impl IntoIterator<Item = Operand<'a>>) -> Result<(), LimitRefusal> {
        let mut worst: Option<LimitRefusal> = None;
        for (input_idx, input) in inputs.into_iter().enumerate() {
            let Err(refusal) = self.operand_limit(input_idx, input) else { continue };
            if worst.as_ref().is_none_or(|worst| refusal.progress() < worst.progress()) {
                worst = Some(refusal);
            }
        }
        worst.map_or(Ok(()), Err)
    }

    fn operand_limit(&self, input_idx: usize, input: Operand<'_>) -> Result<(), LimitRefusal> {
        let kind = input.device.split(':').next().unwrap_or(input.device);
        if !self.devices.iter().any(|device| device == input.device || device == kind) {
            let (found, allowed) = (input.device.to_owned(), self.devices.clone());
            return Err(LimitRefusal::Device { input_idx, found, allowed });
        }
        if let Some(dtypes) = &self.dtypes
            && !dtypes.iter().any(|dtype| dtype == input.dtype)
        {
            let (found, allowed) = (input.dtype.to_owned(), dtypes.clone());
            return Err(LimitRefusal::Dtype { input_idx, found, allowed });
        }
        match self.ranks {
            Some((lowest, highest)) if !(lowest..=highest).contains(&input.rank) => {
                Err(LimitRefusal::Rank { input_idx, found: input.rank, lowest, highest })
            }
            _ => Ok(()),
        }
    }
}

/// Which claims name an op.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClaimIndex {
    /// For each op that some claim lists by its exact name: all claims that match it, globs included, in the
    /// manifest's order.
    exact: FxHashMap<Box<str>, Vec<u32>>,
    /// All globs with wildcards and their claims, in the manifest's order, for all other ops.
    globs: Box<[(u32, Glob)]>,
}

impl ClaimIndex {
    pub(crate) fn new(claims: &[Claim]) -> Self {
        let mut exact: FxHashMap<Box<str>, Vec<u32>> = FxHashMap::default();
        let mut globs = Vec::new();
        for (i, claim) in claims.iter().enumerate() {
            for glob in &claim.ops {
                if glob.is_exact() {
                    exact.entry(glob.as_str().into()).or_default().push(i as u32);
                } else {
                    globs.push((i as u32, glob.clone()));
                }
            }
        }
        for (name, named_by) in &mut exact {
            named_by.extend(globs.iter().filter(|(_, glob)| glob.matches(name)).map(|(i, _)| *i));
            named_by.sort_unstable();
            named_by.dedup();
        }
        ClaimIndex { exact, globs: globs.into() }
    }

    /// The claims that name the op, by index, ascending.
    fn naming(&self, op: &str) -> Cow<'_, [u32]> {
        if let Some(exact) = self.exact.get(op) {
            return Cow::Borrowed(exact);
        }
        let mut by_glob: Vec<u32> =
            self.globs.iter().filter(|(_, glob)| glob.matches(op)).map(|(i, _)| *i).collect();
        by_glob.dedup();
        Cow::Owned(by_glob)
    }
}

impl ExecutorDecl {
    /// The claims that name the op, in the manifest's order.
    pub fn claims_naming(&self, op: &str) -> impl Iterator<Item = &Claim> {
        let naming = self.index.naming(op);
        (0..naming.len()).map(move |i| &self.claims[naming[i] as usize])
    }

    /// The first claim under which the op on these tensor inputs may be taken, or the best explanation why
    /// there is none. `like` is not followed: that needs the other manifests.
    pub fn limits<'a, I>(&self, op: &str, inputs: I) -> Result<&Claim, LimitRefusal>
    where
        I: IntoIterator<Item = Operand<'a>>,
        I::IntoIter: Clone,
    {
        let inputs = inputs.into_iter();
        let mut refusal = LimitRefusal::OpUnknown;
        for claim in self.claims_naming(op) {
            match claim.operand_limits(inputs.clone()) {
                Ok(()) => return Ok(claim),
                Err(other) => refusal = refusal.or(other),
            }
        }
        Err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitRefusal, Operand};
    use crate::manifest::{ExecutorDecl, Manifest};

    fn executor(claims: &str) -> ExecutorDecl {
        let head =
            "manifest = 1\nid = 'x'\nversion = '1.0'\nabi = '0.1'\nir = '1'\n[[executor]]\nname = 'x'\n";
        let (mut manifest, warnings) =
            Manifest::parse(&format!("{head}{claims}")).expect("the test's manifest");
        assert_eq!(warnings, []);
        manifest.executors.remove(0)
    }

    fn on<'a>(dtype: &'a str, device: &'a str, rank: u32) -> Operand<'a> {
        Operand { dtype, device, rank }
    }

    #[track_caller]
    fn refused(executor: &ExecutorDecl, op: &str, inputs: &[Operand<'_>], code: &str, sentence: &str) {
        let refusal = executor.limits(op, inputs.iter().copied()).expect_err("must be refused");
        assert_eq!((refusal.code(), refusal.to_string().as_str()), (code, sentence));
    }

    const TWO: &str = "
        [[executor.claim]]
        ops = ['torch.linear', 'aten.special_*']
        dtypes = ['f32', 'bf16']
        ranks = [2, 4]
        [[executor.claim]]
        ops = ['torch.linear', 'torch.*']
        dtypes = ['f64']
        devices = ['cuda']
        check = true
    ";

    #[test]
    fn the_first_claim_that_fits_wins() {
        let x = executor(TWO);
        let claim = x.limits("torch.linear", [on("f32", "cpu", 2)]).expect("first claim");
        assert!(!claim.check);
        let claim = x.limits("torch.linear", [on("f64", "cuda:1", 9)]).expect("second claim");
        assert!(claim.check);
        assert!(x.limits("torch.add", [on("f64", "cuda:0", 0)]).is_ok());
        assert!(x.limits("aten.special_erfcx.default", [on("bf16", "cpu", 3)]).is_ok());
    }

    #[test]
    fn ops_without_tensor_inputs_meet_all_limits() {
        assert!(executor(TWO).limits("torch.linear", []).is_ok());
    }

    #[test]
    fn refusals_say_what_is_wrong_and_what_would_do() {
        let x = executor(TWO);
        refused(&x, "prims.exp", &[], "claim::op_unknown", "not in its manifest");
        let dtypes = [on("f32", "cpu", 2), on("i64", "cpu", 2)];
        let sentence = "input 1 is i64; it takes f32, bf16";
        refused(&x, "torch.linear", &dtypes, "claim::dtype_unsupported", sentence);
        let sentence = "input 0 has 1 dims; it takes 2 to 4";
        refused(&x, "torch.linear", &[on("f32", "cpu", 1)], "claim::rank_unsupported", sentence);
        let sentence = "input 0 is on `xpu:0`; it takes `cpu` or `cuda`";
        refused(&x, "torch.linear", &[on("f32", "xpu:0", 2)], "claim::device_unsupported", sentence);
    }

    #[test]
    fn devices_are_named_by_kind_or_exactly() {
        let x = executor("[[executor.claim]]\nops = ['a.b']\ndevices = ['cuda:1']");
        assert!(x.limits("a.b", [on("f32", "cuda:1", 0)]).is_ok());
        refused(
            &x,
            "a.b",
            &[on("f32", "cuda:0", 0)],
            "claim::device_unsupported",
            "input 0 is on `cuda:0`; it takes `cuda:1`",
        );
    }

    #[test]
    fn an_empty_dtype_list_takes_no_tensor() {
        let x = executor("[[executor.claim]]\nops = ['a.b']\ndtypes = []");
        assert!(matches!(x.limits("a.b", [on("f32", "cpu", 0)]), Err(LimitRefusal::Dtype { .. })));
    }

    #[test]
    fn claims_are_found_by_name_and_by_glob() {
        let x = executor(TWO);
        let count = |op: &str| x.claims_naming(op).count();
        assert_eq!(
            [count("torch.linear"), count("torch.mul"), count("aten.special_x"), count("x.y")],
            [2, 1, 1, 0]
        );
    }
}
