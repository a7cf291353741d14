//! What this plugin runs, a family a file. Each file starts with its rows; what a row cannot say is a function under
//! them.
//!
//! Deliberately not here: dtypes and other static limits, which stand in `plugin.toml`.

mod attention;
mod conv;
mod creation;
mod indexing;
mod linalg;
mod loss;
mod norm;
pub mod opaque;
mod optim;
mod pointwise;
mod reduction;
mod shape;
mod transform;

use std::collections::HashMap;
use std::sync::OnceLock;

use thunderhead_aten::recipe::Row;

/// Every row, the families in order.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [
        pointwise::ROWS,
        reduction::ROWS,
        shape::ROWS,
        creation::ROWS,
        indexing::ROWS,
        linalg::ROWS,
        conv::ROWS,
        norm::ROWS,
        attention::ROWS,
        loss::ROWS,
        transform::ROWS,
        optim::ROWS,
    ]
    .into_iter()
    .flatten()
}

/// The row of an op.
pub fn row(op: &str) -> Option<&'static Row> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Row>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| rows().map(|row| (row.op, row)).collect());
    let opaque = || op.starts_with("aten.").then_some(&opaque::ROW);
    let gradient = || op.starts_with("vjp.aten.").then_some(&opaque::VJP_ROW);
    by_name.get(op).copied().or_else(opaque).or_else(gradient)
}
