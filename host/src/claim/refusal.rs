//! Refusals: why an executor does not take an op. All codes of the host are here; plugins add their own behind theirs.

/// Codes of refusals that the host itself gives.
pub mod codes {
    /// No claim of the executor names the op.
    pub const OP_UNKNOWN: &str = "claim::op_unknown";
    /// A tensor input of a dtype outside the claim's limits.
    pub const DTYPE: &str = "claim::dtype_unsupported";
    /// A tensor input on a device outside the claim's limits.
    pub const DEVICE: &str = "claim::device_unsupported";
    /// A tensor input with too few or too many dims.
    pub const RANK: &str = "claim::rank_unsupported";
    /// The config's `allow` does not list the op.
    pub const NOT_ALLOWED: &str = "claim::not_allowed";
    /// The config's `deny` lists the op.
    pub const DENIED: &str = "claim::denied";
    /// The executor has won as many claims as `fuel` lets it.
    pub const OUT_OF_FUEL: &str = "claim::out_of_fuel";
    /// The plugin refused in `check_op` without a code of its own.
    pub const CHECK: &str = "claim::check_refused";
    /// The plugin failed while it was asked.
    pub const PLUGIN_FAILED: &str = "claim::plugin_failed";
    /// The plugin is quarantined after a panic.
    pub const PLUGIN_PANICKED: &str = "claim::plugin_panicked";
    /// `last_resort = "none"`.
    pub const DISABLED: &str = "claim::disabled";
    /// Its arguments are of a kind that cannot be given to an executor; its parts are asked.
    pub const NO_QUESTION: &str = "claim::no_question";
    /// An op that draws random numbers by a generator of its own.
    pub const RANDOM: &str = "claim::random";
    /// Several values may meet in one element, and the executor adds them in no fixed order or too coarsely.
    pub const NOT_DETERMINISTIC: &str = "claim::not_deterministic";
    /// Codes that mean the same whoever gives them: a plugin's `random` is the host's `claim::random`.
    pub const SHARED: [&str; 5] = [RANDOM, NOT_DETERMINISTIC, DTYPE, DEVICE, RANK];
    /// No region may hold the op: its result's size is known only when it runs, or it moves a tensor between devices.
    pub const NO_REGION: &str = "claim::no_region";
    /// The region that it stood in has fewer ops than `min_ops`.
    pub const REGION_MIN_OPS: &str = "region::min_ops";
    /// The region that it stood in holds none of `needs_any`.
    pub const REGION_NEEDS_ANY: &str = "region::needs_any";
    /// The executor wants it in no region.
    pub const REGION_LEFT_OUT: &str = "region::left_out";
    /// The executor cannot lower the region that it stood in.
    pub const REGION_UNSUPPORTED: &str = "region::unsupported";
    /// It was this executor that handed the op on.
    pub const HANDED_ON: &str = "claim::handed_on";
    /// The executor takes the op, but making its kernel failed.
    pub const MAKE_FAILED: &str = "claim::make_failed";
}

/// One executor's reason for one op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The executor.
    pub executor: String,
    /// A stable code, `claim::…` or the plugin's own.
    pub code: String,
    /// One sentence, lower case, no period.
    pub sentence: String,
    /// The argument or dim at fault.
    pub at: Option<String>,
}

impl Refusal {
    /// A refusal without a place.
    pub fn new(executor: &str, code: &str, sentence: impl Into<String>) -> Refusal {
        Refusal { executor: executor.into(), code: code.into(), sentence: sentence.into(), at: None }
    }
}
