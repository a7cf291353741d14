//! The table itself: all families, looked up by name and by ATen overload.

use super::Op;
use crate::ir::{Schema, Schemas};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// Every family's list, in the order of the documentation.
static FAMILIES: &[&[&Op]] = &[
    super::pointwise::OPS,
    super::analysis::OPS,
    super::rounding::OPS,
    super::activation::OPS,
    super::memory::OPS,
    super::shape::OPS,
    super::strided::OPS,
    super::arrange::OPS,
    super::creation::OPS,
    super::patterns::OPS,
    super::random::OPS,
    super::distributions::OPS,
    super::number::OPS,
    super::control::OPS,
    super::reduction::OPS,
    super::scan::OPS,
    super::statistics::OPS,
    super::linalg::OPS,
    super::products::OPS,
    super::factorise::OPS,
    super::fft::OPS,
    super::norm::OPS,
    super::indexing::OPS,
    super::selection::OPS,
    super::subscript::OPS,
    super::attention::OPS,
    super::loss::OPS,
    super::margin::OPS,
    super::conv::OPS,
    super::pool::OPS,
    super::resample::OPS,
    super::recurrent::OPS,
    super::optim::OPS,
];

struct Table {
    ops: Vec<&'static Op>,
    by_name: FxHashMap<&'static str, (&'static Op, &'static Schema)>,
    by_overload: FxHashMap<&'static str, (&'static Op, &'static super::Aten)>,
}

fn loaded() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let ops: Vec<&'static Op> = FAMILIES.iter().flat_map(|f| f.iter().copied()).collect();
        let mut by_name = FxHashMap::default();
        let mut by_overload = FxHashMap::default();
        for op in &ops {
            // Leaked once: the table lives as long as the process.
            let schema: &'static Schema = Box::leak(Box::new(
                Schema::parse(op.schema).expect("a test parses the schema of every entry"),
            ));
            by_name.insert(op.name, (*op, schema));
            for aten in op.aten {
                for overload in aten.overloads {
                    by_overload.insert(*overload, (*op, aten));
                }
            }
        }
        Table { ops, by_name, by_overload }
    })
}

/// All entries.
pub fn table() -> &'static [&'static Op] {
    &loaded().ops
}

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static Op> {
    loaded().by_name.get(name).map(|(op, _)| *op)
}

/// The schema of an entry.
pub fn schema_of(op: &Op) -> &'static Schema {
    loaded().by_name.get(op.name).expect("every entry is in the table").1
}

/// The entry that the overload (`add.Tensor`) becomes, and how.
pub fn aten_owner(overload: &str) -> Option<(&'static Op, &'static super::Aten)> {
    loaded().by_overload.get(overload).copied()
}

/// The table as a source of schemas for the printer and the parser.
pub fn schemas() -> &'static (dyn Schemas + Sync) {
    struct TableSchemas;
    impl Schemas for TableSchemas {
        fn schema(&self, op: &str) -> Option<&Schema> {
            loaded().by_name.get(op).map(|(_, s)| *s).or_else(|| super::aten_schema::opaque_schema(op))
        }
    }
    &TableSchemas
}
