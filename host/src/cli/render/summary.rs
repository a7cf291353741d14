//! The one line that every run ends with.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::units::{bytes, count, time};

/// What a run was.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Ops that each executor had, `host` included.
    pub ops_by_executor: BTreeMap<String, usize>,
    /// How many of these fusion executors handed on, by who ran them.
    pub handed_on: BTreeMap<String, usize>,
    pub n_regions: usize,
    pub n_copies: usize,
    pub copied_bytes: u64,
    /// Executors that were wanted, were there, and could not be used.
    pub refused: Vec<String>,
    /// Executors that were wanted and that no plugin here brings.
    pub absent: Vec<String>,
    /// Of the run itself.
    #[serde(serialize_with = "as_ns", rename = "run_ns")]
    pub run: Duration,
    /// Of claiming, planning and making kernels.
    #[serde(serialize_with = "as_ns", rename = "compile_ns")]
    pub compile: Duration,
    /// Arena and outputs.
    pub peak_bytes: u64,
    /// What the forward kept for the backward, where there is one and it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_bytes: Option<u64>,
}

fn as_ns<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

impl Summary {
    /// `13 ops (pytorch 12, host 1), 0 regions, 1 copy of 4.0 KiB, no plugin refused, 1.2 ms (compiled in 3.4 ms), peak 12.0 KiB`
    pub fn line(&self) -> String {
        // Who did most comes first.
        let by = ranked(&self.ops_by_executor);
        let handed_on = match self.handed_on.values().sum::<usize>() {
            0 => String::new(),
            n => format!("; {n} handed on: {}", ranked(&self.handed_on)),
        };
        let ops = count(self.ops_by_executor.values().sum(), "op");
        let copies = match self.n_copies {
            0 => "no copies".to_owned(),
            n => format!("{} of {}", count(n, "copy"), bytes(self.copied_bytes)),
        };
        let refused = match self.refused.as_slice() {
            [] => "no plugin refused".to_owned(),
            names => format!("{} refused ({})", count(names.len(), "plugin"), names.join(", ")),
        };
        let absent = match self.absent.as_slice() {
            [] => String::new(),
            names => format!(", {} not there", names.join(", ")),
        };
        let saved = self.saved_bytes.map(|n| format!(", {} saved for the backward", bytes(n)));
        format!(
            "{ops} ({by}{handed_on}), {}, {copies}, {refused}{absent}, {} (compiled in {}), peak {}{}",
            count(self.n_regions, "region"),
            time(self.run),
            time(self.compile),
            bytes(self.peak_bytes),
            saved.unwrap_or_default()
        )
    }
}

/// `pytorch 12, host 1`.
fn ranked(by: &BTreeMap<String, usize>) -> String {
    let mut by: Vec<_> = by.iter().collect();
    by.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), *name));
    by.into_iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_everything() {
        let summary = Summary {
            ops_by_executor: BTreeMap::from([("host".to_owned(), 3), ("pytorch".to_owned(), 12)]),
            handed_on: BTreeMap::new(),
            n_regions: 0,
            n_copies: 1,
            copied_bytes: 4096,
            refused: vec!["acme-blas".to_owned()],
            absent: Vec::new(),
            run: Duration::from_micros(1200),
            compile: Duration::from_micros(3400),
            peak_bytes: 12 << 10,
            saved_bytes: None,
        };
        let expected = "15 ops (pytorch 12, host 3), 0 regions, 1 copy of 4.0 KiB, 1 plugin refused (acme-blas), \
                        1.2 ms (compiled in 3.4 ms), peak 12.0 KiB";
        assert_eq!(summary.line(), expected);
        let fused = Summary { handed_on: BTreeMap::from([("sdpa".to_owned(), 2)]), ..summary.clone() };
        assert!(fused.line().starts_with("15 ops (pytorch 12, host 3; 2 handed on: sdpa 2), 0 regions"));
        let poor = Summary { refused: Vec::new(), absent: vec!["pytorch".to_owned()], ..summary.clone() };
        assert!(poor.line().contains(", no plugin refused, pytorch not there, 1.2 ms"), "{}", poor.line());
        let saving = Summary { saved_bytes: Some(2048), ..summary };
        assert_eq!(saving.line(), format!("{expected}, 2.0 KiB saved for the backward"));
    }
}
