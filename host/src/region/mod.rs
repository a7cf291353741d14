//! Which ops of a fusion executor stand together: convex regions, found in one walk over the trace.
//!
//! [`group`] makes them as large as it can, [`rules`] says what the executor's rules make of one, [`proposals`] looks at
//! what the executor would rather have. What changes is who has which op, and which ops must stay together; then the ops are
//! grouped anew. Deliberately absent: executors' names, claims, what a region is turned into.

pub mod epochs;
pub mod proposals;
pub mod rules;

pub use epochs::{Group, Grouping, Part, Place, group};
pub use proposals::{ProposalError, check_proposals};
pub use rules::{Verdict, judge};
