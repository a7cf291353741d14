//! Numbers with units, short enough for a line.

use std::time::Duration;

/// `512 B`, `3.4 MiB`.
pub fn bytes(n_bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n_bytes as f64;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n_bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// `840 ns`, `12.3 µs`, `4.5 ms`, `1.20 s`.
pub fn time(elapsed: Duration) -> String {
    let ns = elapsed.as_nanos();
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", elapsed.as_secs_f64()),
    }
}

/// `1 op`, `3 ops`.
pub fn count(n: usize, one: &str) -> String {
    match (n, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        _ => format!("{n} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1024), bytes(5 << 20)],
            ["0 B", "1023 B", "1.0 KiB", "5.0 MiB"]
        );
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        let times = [7, 1_500, 2_000_000, 3_210_000_000].map(|ns| time(Duration::from_nanos(ns)));
        assert_eq!(times, ["7 ns", "1.5 µs", "2.0 ms", "3.21 s"]);
        assert_eq!([count(1, "copy"), count(2, "copy"), count(0, "op")], ["1 copy", "2 copies", "0 ops"]);
    }
}
