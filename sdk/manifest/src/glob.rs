//! Names or globs over op names: `torch.linear`, `aten.special_*`.
//!
//! `*` stands for any run of characters, dots included, `?` for one. There are no classes and no escapes: no
//! op name holds these characters.

use std::fmt;

use serde::{Serialize, Serializer};

/// A name or a glob. Equal and ordered by its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Glob {
    text: Box<str>,
}

impl Glob {
    /// Takes any text; [`Glob::is_well_formed`] says whether it can match an op name at all.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Glob { text: text.into() }
    }

    /// The text as typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it names exactly one op.
    pub fn is_exact(&self) -> bool {
        !self.text.contains(['*', '?'])
    }

    /// Whether it holds only characters of op names and wildcards, and at least one.
    pub fn is_well_formed(&self) -> bool {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '*' | '?');
        !self.text.is_empty() && self.text.chars().all(allowed)
    }

    /// Whether the name matches.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.text.as_bytes(), name.as_bytes());
        let (mut p, mut n) = (0, 0);
        // Where to resume when a literal fails after a `*`: the star, and the name position it has reached.
        // Going back to the last star only is enough, so the worst case is pattern × name, never exponential.
        let mut resume: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    resume = Some((p, n));
                    p += 1;
                }
                Some(&c) if c == b'?' || c == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match resume {
                    Some((star, reached)) => {
                        resume = Some((star, reached + 1));
                        p = star + 1;
                        n = reached + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|&c| c == b'*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[track_caller]
    fn check(glob: &str, name: &str, expected: bool) {
        assert_eq!(Glob::new(glob).matches(name), expected, "`{glob}` against `{name}`");
    }

    #[test]
    fn names_match_themselves_only() {
        check("torch.linear", "torch.linear", true);
        check("torch.linear", "torch.linear2", false);
        check("torch.linear", "torch.linea", false);
    }

    #[test]
    fn wildcards() {
        check("*", "", true);
        check("*", "prims.exp", true);
        check("aten.special_*", "aten.special_bessel_j0.default", true);
        check("aten.*", "torch.add", false);
        check("*.default", "aten.foo.default", true);
        check("*.default", "aten.foo.out", false);
        check("*add*", "torch.addmm", true);
        check("a*b*c", "abxbc", true);
        check("a*b*c", "abxb", false);
        check("prims.?", "prims.x", true);
        check("prims.?", "prims.", false);
    }

    #[test]
    fn hostile_patterns_are_polynomial() {
        let pattern = "a*".repeat(200) + "b";
        check(&pattern, &"a".repeat(2_000), false);
    }

    #[test]
    fn form() {
        assert!(Glob::new("aten.*").is_well_formed() && !Glob::new("aten.*").is_exact());
        assert!(!Glob::new("").is_well_formed());
        assert!(!Glob::new("torch linear").is_well_formed());
    }
}
