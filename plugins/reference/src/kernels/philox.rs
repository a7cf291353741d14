//! The stream of random words: Philox4x32-10, as the op table's page on random numbers defines it bit for bit.

use thunderhead_sdk::Error;

/// Word `p` of a seed's stream is output `p mod 4` for counter `p div 4`.
#[derive(Clone, Copy)]
pub struct Stream {
    key: [u32; 2],
    offset: u64,
}

impl Stream {
    /// The stream of `seed` from word `offset` on.
    pub fn new(seed: i64, offset: i64) -> Stream {
        Stream { key: halves(seed as u64), offset: offset as u64 }
    }

    /// Word `at`, counted from the stream's offset.
    pub fn word(&self, at: u64) -> u32 {
        let position = self.offset.wrapping_add(at);
        block(self.key, position / 4)[(position % 4) as usize]
    }

    /// Words `at` (high half) and `at + 1`.
    pub fn wide(&self, at: u64) -> u64 {
        u64::from(self.word(at)) << 32 | u64::from(self.word(at + 1))
    }

    /// Uniform in [0, 1), from the 53 upper bits of the words `2 i` and `2 i + 1`.
    pub fn uniform_f64(&self, i: u64) -> f64 {
        (self.wide(2 * i) >> 11) as f64 * 2f64.powi(-53)
    }

    /// Normal number `i`, by Box and Muller from the pair of words `2 (i div 2)` and the next.
    pub fn normal(&self, i: u64) -> f64 {
        let pair = i / 2 * 2;
        let u1 = (f64::from(self.word(pair) >> 8) + 1.0) * 2f64.powi(-24);
        let u2 = f64::from(self.word(pair + 1) >> 8) * 2f64.powi(-24);
        let radius = libm::sqrt(-2.0 * libm::log(u1));
        let angle = 2.0 * std::f64::consts::PI * u2;
        radius * if i.is_multiple_of(2) { libm::cos(angle) } else { libm::sin(angle) }
    }
}

fn halves(v: u64) -> [u32; 2] {
    [v as u32, (v >> 32) as u32]
}

/// Ten rounds on the counter `(low, high, 0, 0)`.
fn block(key: [u32; 2], counter: u64) -> [u32; 4] {
    const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let [low, high] = halves(counter);
    let (mut c, mut k) = ([low, high, 0, 0], key);
    for _ in 0..10 {
        let [low0, high0] = halves(MULTIPLIERS[0] * u64::from(c[0]));
        let [low1, high1] = halves(MULTIPLIERS[1] * u64::from(c[2]));
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// The block that the authors of Philox publish for key and counter 0.
pub fn selftest() -> Result<(), Error> {
    let (found, expected) = (block([0, 0], 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    if found == expected {
        return Ok(());
    }
    Err(Error::internal(format!("the random stream begins {found:x?}; expected {expected:x?}")))
}
