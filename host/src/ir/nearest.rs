//! The nearest right name for a wrong one, for messages.
//!
//! Bounded on purpose: names come from files, so neither their number nor their length may make a message slow.

/// Longest name that is compared, and most candidates that are looked at.
const MAX_CHARS: usize = 64;
const MAX_CANDIDATES: usize = 4096;

/// The candidate that is closest to `name`, if one is close enough to be what was meant. Of equals the first in
/// alphabetical order, so that a message does not depend on the order of the candidates.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_CHARS {
        return None;
    }
    let allowed = match name.len() {
        0 | 1 => 0,
        2 | 3 => 1,
        n => 1 + n / 4,
    };
    let mut best: Option<(usize, &str)> = None;
    for c in candidates.into_iter().take(MAX_CANDIDATES) {
        if c.len().abs_diff(name.len()) > allowed {
            continue;
        }
        let distance = strsim::osa_distance(name, c);
        if distance <= allowed && best.is_none_or(|b| (distance, c) < b) {
            best = Some((distance, c));
        }
    }
    best.map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_typos_and_nothing_far() {
        assert_eq!(nearest("linaer", ["relu", "linear"]), Some("linear"));
        assert_eq!(nearest("axes", ["axis", "dims"]), Some("axis"));
        assert_eq!(nearest("softmax", ["relu", "linear"]), None);
    }
}
