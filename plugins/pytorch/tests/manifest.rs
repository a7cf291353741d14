//! The manifest says what the rows do, and no more.

use std::collections::BTreeSet;

use thunderhead_manifest::Manifest;

#[test]
fn every_claim_has_a_row_and_every_row_a_claim() {
    let (manifest, warnings) = Manifest::parse(thunderhead_pytorch::MANIFEST).expect("it parses");
    assert!(warnings.is_empty(), "{warnings:?}");
    let text = thunderhead_pytorch::MANIFEST;
    let rows: BTreeSet<&str> = thunderhead_pytorch::op_names().collect();
    assert_eq!(rows.len(), thunderhead_pytorch::op_names().count(), "an op has two rows");
    let claimed: BTreeSet<&str> = text
        .split('"')
        .filter(|part| ["torch.", "prims.", "optim."].iter().any(|family| part.starts_with(family)))
        .collect();
    let unclaimed: Vec<_> = rows.difference(&claimed).collect();
    assert!(unclaimed.is_empty(), "rows that no claim names: {unclaimed:?}");
    // Claims without a row are those that `check` refuses with `random`.
    let without: Vec<_> =
        claimed.difference(&rows).filter(|op| !thunderhead_pytorch::is_random(op)).collect();
    assert!(without.is_empty(), "claims without a row: {without:?}");
    assert_eq!(manifest.executors.len(), 1);
}

#[test]
fn rows_name_overloads_that_libtorch_has() {
    let faults = thunderhead_pytorch::row_faults();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
