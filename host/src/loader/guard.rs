//! Checks every answer of a plugin before anything else looks at it: what is wrong becomes a fault that names plugin,
//! op and what was found.

use super::kernel::Expected;
use super::services;
use crate::claim::{Refusal, codes};
use crate::plan::{Fault, FaultKind, KernelInfo};
use thunderhead_abi::basic::{Status, status};
use thunderhead_abi::kernel_1::{self, kernel_flags};

/// Who was called, for faults.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub executor: String,
    /// Id and version.
    pub plugin: String,
}

impl Who {
    pub fn fault(&self, op: &str, origin: &str, kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault {
            executor: self.executor.as_str().into(),
            plugin: self.plugin.as_str().into(),
            op: op.into(),
            origin: origin.into(),
            kind,
            message: message.into().into(),
        }
    }
}

/// The kind behind a status, with the plugin's message. `status` is not `OK`.
pub(super) fn failure(status: Status) -> (FaultKind, String) {
    let message = services::take_error(status).unwrap_or_else(|| "it gave no message".to_owned());
    let kind = match status {
        status::INVALID_ARGUMENT => FaultKind::InvalidArgument,
        status::UNSUPPORTED => FaultKind::Unsupported,
        status::OUT_OF_MEMORY => FaultKind::OutOfMemory,
        status::UNAVAILABLE => FaultKind::Unavailable,
        status::VERSION => FaultKind::Version,
        status::INTERNAL => FaultKind::Internal,
        status::PANIC => FaultKind::Panic,
        status::TIMEOUT => FaultKind::Timeout,
        status::CANCELLED => FaultKind::Cancelled,
        status::BAD_DATA => FaultKind::BadData,
        other => {
            let name = status::name(other).unwrap_or("unknown");
            return (FaultKind::BadAnswer, format!("it answered with status {other} ({name}): {message}"));
        }
    };
    (kind, message)
}

/// The name of a kind, as the ABI has it.
pub(super) fn kind_name(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::InvalidArgument => "invalid_argument",
        FaultKind::Unsupported => "unsupported",
        FaultKind::OutOfMemory => "out_of_memory",
        FaultKind::Unavailable => "unavailable",
        FaultKind::Version => "version",
        FaultKind::Internal => "internal",
        FaultKind::Panic => "panic",
        FaultKind::Timeout => "timeout",
        FaultKind::Cancelled => "cancelled",
        FaultKind::BadData => "bad_data",
        FaultKind::BadAnswer => "bad answer",
    }
}

/// The refusal of a check that failed.
pub(super) fn failed_check(who: &Who, kind: FaultKind, message: &str) -> Refusal {
    let code = if kind == FaultKind::Panic { codes::PLUGIN_PANICKED } else { codes::PLUGIN_FAILED };
    Refusal::new(&who.executor, code, format!("its check failed ({}): {message}", kind_name(kind)))
}

/// The refusal behind an answer of `check_op` that is not `OK`, or the failure that it is.
pub(super) fn refused(who: &Who, status: Status) -> Result<Refusal, (FaultKind, String)> {
    if status != status::REFUSED {
        return Err(failure(status));
    }
    let Some(said) = services::take_refusal() else {
        return Ok(Refusal::new(&who.executor, codes::CHECK, "it refused and gave no reason"));
    };
    if !is_code(&said.code) {
        let sentence = format!("it refused with `{}`, which is no code: {}", said.code, said.sentence);
        return Ok(Refusal::new(&who.executor, codes::CHECK, sentence));
    }
    let shared = codes::SHARED.iter().find(|c| c.strip_prefix("claim::") == Some(said.code.as_str()));
    let code = shared.map_or_else(|| format!("{}::{}", who.executor, said.code), |c| (*c).to_string());
    let mut refusal = Refusal::new(&who.executor, &code, said.sentence);
    refusal.at = match (said.attribute, said.dim) {
        (Some(name), Some((dim, value))) => Some(format!("{name}, dim {dim} = {value}")),
        (Some(name), None) => Some(name),
        (None, Some((dim, value))) => Some(format!("dim {dim} = {value}")),
        (None, None) => None,
    };
    Ok(refusal)
}

fn is_code(code: &str) -> bool {
    code.starts_with(|c: char| c.is_ascii_lowercase())
        && code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The answer of `make`, but for its workspace. The error says what is wrong.
///
/// # Safety
/// `info` was filled in by a plugin whose kernel is alive.
pub(super) unsafe fn kernel_info(
    info: &kernel_1::KernelInfo,
    inputs: &[Expected],
    outputs: &[Expected],
) -> Result<KernelInfo, String> {
    if info.kernel.is_null() {
        return Err("it answered OK and made no kernel".to_owned());
    }
    // SAFETY: alive as long as the kernel by its contract.
    let pairs = unsafe { info.in_place.items() }.ok_or("its list of in-place pairs is malformed")?;
    // SAFETY: as above.
    let stated = unsafe { info.output_strides.items() }.ok_or("its list of output strides is malformed")?;
    if !pairs.are_understood() || !stated.are_understood() {
        return Err("its answer says things that this host does not know".to_owned());
    }
    let mut in_place = Vec::with_capacity(pairs.len());
    for pair in pairs.iter() {
        let (output, input) = (pair.output as usize, pair.input as usize);
        let (Some(to), Some(from)) = (outputs.get(output), inputs.get(input)) else {
            return Err(format!(
                "it lets output {output} share input {input}; there are {} outputs and {} inputs",
                outputs.len(),
                inputs.len()
            ));
        };
        if to.dtype.size_bytes() != from.dtype.size_bytes() {
            return Err(format!(
                "it lets output {output} ({}) share input {input} ({})",
                to.dtype, from.dtype
            ));
        }
        in_place.push((output, input));
    }
    let mut output_strides = Vec::with_capacity(stated.len());
    for strides in stated.iter() {
        let output = strides.output as usize;
        let expected = outputs
            .get(output)
            .ok_or(format!("it states strides for output {output}; there are {} outputs", outputs.len()))?;
        // SAFETY: `rank` strides, alive as long as the kernel by its contract.
        let values =
            unsafe { services::ints(strides.strides, strides.rank) }.ok_or("its strides are missing")?;
        fits(expected, values)
            .map_err(|why| format!("it states strides {values:?} for output {output}: {why}"))?;
        output_strides.push((output, values.to_vec()));
    }
    Ok(KernelInfo {
        workspace_bytes: 0,
        in_place,
        size_independent: info.flags & kernel_flags::SIZE_INDEPENDENT != 0,
        output_strides,
    })
}

/// Whether an output of these dims can be written with these strides: one a dim, none negative, no two elements in
/// one place, not much larger than dense.
fn fits(expected: &Expected, strides: &[i64]) -> Result<(), String> {
    const MAX_PADDING: i128 = 16;
    let Some(dims) = &expected.dims else { return Err("the kernel decides its size".to_owned()) };
    if dims.len() != strides.len() {
        return Err(format!("it has {} dims", dims.len()));
    }
    let mut order: Vec<(i128, i128)> = dims
        .iter()
        .zip(strides)
        .filter(|(dim, _)| **dim > 1)
        .map(|(dim, stride)| (i128::from(*stride), i128::from(*dim)))
        .collect();
    order.sort_unstable();
    let mut reach: i128 = 0;
    for (stride, dim) in &order {
        if *stride <= reach {
            return Err(format!("elements of dims {dims:?} would overlap"));
        }
        reach += (dim - 1) * stride;
    }
    let dense: i128 = dims.iter().map(|dim| i128::from((*dim).max(1))).product();
    if reach + 1 > dense * MAX_PADDING {
        return Err(format!("it would take {} elements of memory for {dense}", reach + 1));
    }
    Ok(())
}

/// The answer of `workspace/1`.
pub(super) fn workspace_bytes(bytes: u64) -> Result<usize, String> {
    const MAX: u64 = 1 << 46;
    usize::try_from(bytes)
        .ok()
        .filter(|_| bytes <= MAX)
        .ok_or(format!("it asks for {bytes} bytes of workspace"))
}

/// The first null among the words of a struct from `from` to `to` (in bytes), which must all be functions.
///
/// # Safety
/// `start` is aligned to 8 and has `to` readable bytes.
pub(super) unsafe fn first_null(start: *const u8, from: usize, to: usize) -> Option<usize> {
    (from..to).step_by(std::mem::size_of::<usize>()).find(|at| {
        // SAFETY: within the struct.
        let word = unsafe { start.add(*at) };
        // SAFETY: aligned, since start and step are.
        let word = unsafe { word.cast::<usize>().read() };
        word == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Dtype;

    fn output(dims: &[i64]) -> Expected {
        Expected { dtype: Dtype::F32, dims: Some(dims.to_vec()), rank: dims.len() }
    }

    #[test]
    fn strides_must_give_each_element_its_place() {
        assert_eq!(fits(&output(&[2, 3]), &[1, 2]), Ok(()));
        assert_eq!(fits(&output(&[2, 3]), &[4, 1]), Ok(()));
        assert_eq!(fits(&output(&[1, 3]), &[0, 1]), Ok(()));
        for (strides, word) in [
            (&[1, 1][..], "overlap"),
            (&[3], "dims"),
            (&[-3, 1], "overlap"),
            (&[3, 0], "overlap"),
            (&[9000, 1], "memory"),
        ] {
            let why = fits(&output(&[2, 3]), strides).expect_err("cannot be");
            assert!(why.contains(word), "{strides:?}: {why}");
        }
    }

    #[test]
    fn codes_are_identifiers() {
        assert!(is_code("mask_unsupported2") && !is_code("") && !is_code("Mask") && !is_code("a b"));
    }
}
