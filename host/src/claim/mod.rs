//! Who runs each op: executors are asked in order, composites that nobody takes are taken apart.
//!
//! Each answer, refusals included, is on record. Deliberately absent: regions, kernels, executors' names (but `host`,
//! for views and what the host itself does).

pub mod claims;
pub mod layout;
pub mod port;
pub mod refusal;
pub mod spec;
pub mod walk;

pub use claims::{Asking, Candidate, CandidateId, Claims, Fusion};
pub use layout::{Layouts, Strided};
pub use port::{Claimant, LayoutNeed, StaticClaim};
pub use refusal::{Refusal, codes};
pub use spec::{OpSpec, SpecArg, TensorSpec};
pub use walk::{
    ClaimError, Claimed, Delegated, Mark, OpReport, Release, claim, claim_again, claim_delegated,
};
