//! Tokens of the trace format.
//!
//! Space, tabs and comments separate; a newline is a token except inside `( )` and `[ ]`, and several in a row are one.
//! Invariant: each byte is looked at a bounded number of times, and nothing is copied. What tokens *mean* (a number
//! that fits, a word that is a dtype) is the parser's business.

use super::super::fault::Code;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One or more line ends.
    Newline,
    /// `%name`.
    Value,
    /// `12`, `-3`.
    Int,
    /// `1.0`, `1e-05`, `inf`, `-inf`, `nan`.
    Float,
    /// A JSON string, quotes included.
    Str,
    /// `cuda:0`; `cpu` alone is a word.
    Device,
    /// An identifier.
    Word,
    /// `(`, `->`, `//`, ….
    Mark(&'static str),
    /// The end of the text.
    End,
}

/// A token: its kind and where it stands, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: u32,
    /// Behind the last byte.
    pub end: u32,
}

/// A token that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LexError {
    /// What kind of fault.
    pub code: Code,
    /// Where it begins, in bytes.
    pub at: u32,
    /// What is wrong.
    pub message: String,
}

/// Marks, longer ones before their beginnings.
const MARKS: [&str; 19] =
    ["->", "..", "//", "(", ")", "[", "]", "{", "}", ",", ":", "=", "@", "!", "&", ".", "+", "*", "-"];

/// Reads one token after another.
pub struct Lexer<'a> {
    text: &'a str,
    pos: usize,
    /// Brackets that are open; inside round and square ones a newline is space.
    open: Vec<u8>,
    after_newline: bool,
}

impl<'a> Lexer<'a> {
    /// At the beginning of a text of less than 4 GiB.
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, pos: 0, open: Vec::new(), after_newline: true }
    }

    /// The next token; after the last one `End`, again and again.
    pub fn token(&mut self) -> Result<Token, LexError> {
        loop {
            self.skip_space();
            let start = self.pos;
            let kind = match self.byte(0) {
                None => Kind::End,
                Some(b'\n') => {
                    self.pos += 1;
                    let inside = matches!(self.open.last(), Some(b'(' | b'['));
                    if inside || self.after_newline {
                        continue;
                    }
                    Kind::Newline
                }
                Some(b) => self.visible(b)?,
            };
            self.after_newline = kind == Kind::Newline;
            return Ok(Token { kind, start: start as u32, end: self.pos as u32 });
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.pos + ahead).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b) = self.byte(0) {
            match b {
                b' ' | b'\t' => self.pos += 1,
                b'\r' if self.byte(1) == Some(b'\n') => self.pos += 1,
                b'#' => {
                    let rest = &self.text.as_bytes()[self.pos..];
                    self.pos += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// A token that begins with the byte `b`, which is neither space nor newline.
    fn visible(&mut self, b: u8) -> Result<Kind, LexError> {
        match b {
            b'%' => self.value(),
            b'"' => self.string(),
            b'0'..=b'9' => self.number(),
            b'-' if self.byte(1).is_some_and(|b| b.is_ascii_digit()) => self.number(),
            b'-' if self.text[self.pos + 1..].starts_with("inf") && !self.byte(4).is_some_and(in_word) => {
                self.pos += 4;
                Ok(Kind::Float)
            }
            _ if begins_word(b) => self.word(),
            _ => self.mark(),
        }
    }

    fn value(&mut self) -> Result<Kind, LexError> {
        if !self.byte(1).is_some_and(begins_word) {
            return Err(self.error("`%` begins a value's name, a letter or `_` must follow"));
        }
        self.pos += 1;
        self.skip_while(|b| in_word(b) || b == b'.');
        Ok(Kind::Value)
    }

    fn word(&mut self) -> Result<Kind, LexError> {
        let start = self.pos;
        self.skip_while(in_word);
        let word = &self.text[start..self.pos];
        if self.byte(0) == Some(b':') && self.byte(1).is_some_and(|b| b.is_ascii_digit()) {
            self.pos += 1;
            self.digits("device")?;
            return Ok(Kind::Device);
        }
        Ok(if matches!(word, "inf" | "nan") { Kind::Float } else { Kind::Word })
    }

    fn number(&mut self) -> Result<Kind, LexError> {
        let mut kind = Kind::Int;
        self.pos += usize::from(self.byte(0) == Some(b'-'));
        self.skip_while(|b| b.is_ascii_digit());
        if self.byte(0) == Some(b'.') && self.byte(1).is_some_and(|b| b.is_ascii_digit()) {
            kind = Kind::Float;
            self.pos += 1;
            self.skip_while(|b| b.is_ascii_digit());
        }
        if self.byte(0) == Some(b'e') {
            let sign = usize::from(self.byte(1) == Some(b'-'));
            if self.byte(1 + sign).is_some_and(|b| b.is_ascii_digit()) {
                kind = Kind::Float;
                self.pos += 1 + sign;
            }
        }
        self.digits("number")?;
        Ok(kind)
    }

    /// The rest of the digits of what must not run into a word.
    fn digits(&mut self, what: &str) -> Result<(), LexError> {
        self.skip_while(|b| b.is_ascii_digit());
        match self.byte(0) {
            Some(b) if in_word(b) => {
                Err(self.error(&format!("a {what} ends here, `{}` cannot follow", b as char)))
            }
            _ => Ok(()),
        }
    }

    fn string(&mut self) -> Result<Kind, LexError> {
        let start = self.pos;
        self.pos += 1;
        loop {
            match self.byte(0) {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(Kind::Str);
                }
                // Whatever is escaped is checked when the string is decoded; here only `\"` matters.
                Some(b'\\') if self.byte(1).is_some_and(|b| b != b'\n') => self.pos += 2,
                Some(b) if b != b'\n' => self.pos += 1,
                _ => {
                    self.pos = start;
                    return Err(self.error("the string does not end on its line"));
                }
            }
        }
    }

    fn mark(&mut self) -> Result<Kind, LexError> {
        let rest = &self.text[self.pos..];
        let Some(mark) = MARKS.iter().find(|m| rest.starts_with(**m)) else {
            let c = rest.chars().next().unwrap_or('?');
            return Err(self.error(&format!("no token begins with {c:?}")));
        };
        match mark.as_bytes() {
            [b @ (b'(' | b'[' | b'{')] => self.open.push(*b),
            [b')' | b']' | b'}'] => {
                self.open.pop();
            }
            _ => {}
        }
        self.pos += mark.len();
        Ok(Kind::Mark(mark))
    }

    fn skip_while(&mut self, f: impl Fn(u8) -> bool) {
        while self.byte(0).is_some_and(&f) {
            self.pos += 1;
        }
    }

    fn error(&self, message: &str) -> LexError {
        LexError { code: Code::Token, at: self.pos as u32, message: message.to_string() }
    }
}

fn begins_word(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_'
}

fn in_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Is it a NAME of the grammar?
pub fn is_name(s: &str) -> bool {
    s.bytes().next().is_some_and(begins_word) && s.bytes().all(in_word)
}

/// Can it stand behind `%`?
pub fn is_value_name(s: &str) -> bool {
    s.bytes().next().is_some_and(begins_word) && s.bytes().all(|b| in_word(b) || b == b'.')
}

/// Is it a word that cannot be the name of an op or a trace?
pub fn is_reserved(s: &str) -> bool {
    matches!(s, "int" | "float" | "boolean" | "inf" | "nan" | "true" | "false" | "none" | "cpu")
        || super::super::Dtype::from_name(s).is_some()
}

/// Is it one or more NAMEs with points between, and no reserved word?
pub fn is_op_name(s: &str) -> bool {
    s.split('.').all(is_name) && !is_reserved(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            match lexer.token().expect("a text of good tokens").kind {
                Kind::End => return out,
                k => out.push(k),
            }
        }
    }

    #[test]
    fn longest_match_decides() {
        assert_eq!(kinds("cuda:0 f32"), [Kind::Device, Kind::Word]);
        assert_eq!(kinds("0..64"), [Kind::Int, Kind::Mark(".."), Kind::Int]);
        assert_eq!(kinds("2*s1"), [Kind::Int, Kind::Mark("*"), Kind::Word]);
        assert_eq!(kinds("-1 - 1 -inf nan 1e-05 -1.5e3"), {
            use Kind::{Float, Int, Mark};
            [Int, Mark("-"), Int, Float, Float, Float, Float]
        });
        assert_eq!(kinds("%a.0.r: x"), [Kind::Value, Kind::Mark(":"), Kind::Word]);
    }

    #[test]
    fn newlines_end_statements_outside_of_brackets_only() {
        assert_eq!(kinds("\n# c\na(\n1,\n2)\n\n\nb"), {
            use Kind::{Int, Mark, Newline, Word};
            [Word, Mark("("), Int, Mark(","), Int, Mark(")"), Newline, Word]
        });
    }

    #[test]
    fn bad_tokens_are_errors_and_no_more() {
        for text in ["%", "%1", "12x", "\"abc", "\"a\\", "é", "1.5e2z", "cuda:0x", "\"\\é", "$"] {
            let mut lexer = Lexer::new(text);
            assert!(lexer.token().is_err(), "{text}");
        }
    }
}
