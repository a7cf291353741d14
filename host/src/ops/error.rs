//! What meta rules and decompositions say of a bad call.

/// A call that an op does not take. Whoever asked adds where (trace line, node, model).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{op}`: {what}")]
pub struct OpError {
    /// The op.
    pub op: String,
    /// What is wrong, with both values.
    pub what: String,
}
