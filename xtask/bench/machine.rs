//! What this machine can do at most, as JSON: fused multiply-adds of one core and its memory's bandwidth. Compiled alone,
//! for the very processor that it runs on.

use std::hint::black_box;
use std::time::Instant;

/// The best of several rounds of `work`, in units a second.
fn best(units: f64, mut work: impl FnMut()) -> f64 {
    let mut best: f64 = 0.0;
    for _ in 0..12 {
        let begun = Instant::now();
        work();
        best = best.max(units / begun.elapsed().as_secs_f64());
    }
    best
}

/// Independent chains, enough to hide the latency of an addition.
const LANES: usize = 192;

fn multiply_adds(n: usize) -> f32 {
    let mut sums = [1.0f32; LANES];
    let (a, b) = (black_box(0.999_9f32), black_box(1e-5f32));
    for _ in 0..n {
        for sum in &mut sums {
            *sum = sum.mul_add(a, b);
        }
    }
    sums.iter().sum()
}

fn main() {
    let n = 2_000_000;
    let flops = best((2 * n * LANES) as f64, || {
        black_box(multiply_adds(black_box(n)));
    });
    let bytes = 256 << 20;
    let source = vec![1u64; bytes / 8];
    let mut target = vec![0u64; bytes / 8];
    let read = best(bytes as f64, || {
        black_box(black_box(&source).iter().fold(0u64, |sum, v| sum.wrapping_add(*v)));
    });
    let copy = best(bytes as f64, || black_box(&mut target).copy_from_slice(black_box(&source)));
    println!(
        "{{\"fma_gflops\": {:.1}, \"read_gb_s\": {:.1}, \"copy_gb_s\": {:.1}}}",
        flops / 1e9,
        read / 1e9,
        copy / 1e9
    );
}
