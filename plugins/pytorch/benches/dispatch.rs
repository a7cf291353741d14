//! What a step costs that is almost only dispatch: bound runs through the ABI's tables against eager calls of tch.
//!
//! Prints nanoseconds, the least of many rounds; only ratios inside one run mean anything.

use std::hint::black_box;
use std::time::Instant;

use thunderhead_sdk::Dtype;
use thunderhead_sdk::testing::{Host, OpSpec, RunOptions, Tensor, Value};

const ROUNDS: usize = 30;
const STEPS: usize = 2000;

fn main() {
    let host =
        Host::from_entry(thunderhead_pytorch::entry(), "pytorch", &[("deterministic", Value::Bool(true))])
            .expect("the executor is made");
    let ones = |dims: &[i64]| Tensor::new(dims, vec![1f32; dims.iter().product::<i64>() as usize]);
    let tch_ones = |dims: &[i64]| tch::Tensor::ones(dims, (tch::Kind::Float, tch::Device::Cpu));
    let (small, wide, square) = ([8, 8], [8, 64], [64, 64]);
    tch::set_num_threads(1);
    let _no_grad = tch::no_grad_guard();

    println!("{:<28} {:>10} {:>10} {:>10}", "op", "bound", "unbound", "tch eager");
    let add = OpSpec::new("torch.add").tensor("a", ones(&small)).tensor("b", ones(&small)).int("alpha", 1);
    let (a, b) = (tch_ones(&small), tch_ones(&small));
    row(&host, "add 8x8", &add.output(Dtype::F32, &small), || black_box(&a) + black_box(&b));
    let relu = OpSpec::new("torch.relu").tensor("a", ones(&small)).output(Dtype::F32, &small);
    row(&host, "relu 8x8", &relu, || black_box(&a).relu());
    let softmax = OpSpec::new("torch.softmax").tensor("a", ones(&small)).int("axis", 1).none("dtype");
    row(&host, "softmax 8x8", &softmax.output(Dtype::F32, &small), || black_box(&a).softmax(1, None));
    let sum = OpSpec::new("torch.sum")
        .tensor("a", ones(&small))
        .ints("axes", &[1])
        .bool("keepdim", false)
        .none("dtype");
    row(&host, "sum 8x8 axis 1", &sum.output(Dtype::F32, &[8]), || {
        black_box(&a).sum_dim_intlist(1i64, false, tch::Kind::Float)
    });
    let norm = OpSpec::new("torch.layer_norm").tensor("a", ones(&wide)).ints("dims", &[64]);
    let norm = norm.tensor("weight", ones(&[64])).tensor("bias", ones(&[64])).float("eps", 1e-5);
    let (x, w, bias) = (tch_ones(&wide), tch_ones(&square), tch_ones(&[64]));
    row(&host, "layer_norm 8x64", &norm.output(Dtype::F32, &wide), || {
        black_box(&x).layer_norm([64i64], Some(&bias), Some(&bias), 1e-5, false)
    });
    let linear = OpSpec::new("torch.linear")
        .tensor("a", ones(&wide))
        .tensor("w", ones(&square))
        .tensor("bias", ones(&[64]));
    row(&host, "linear 8x64x64", &linear.output(Dtype::F32, &wide), || black_box(&x).linear(&w, Some(&bias)));
    let cat = OpSpec::new("torch.cat")
        .tensors("tensors", vec![Some(ones(&small)), Some(ones(&small))])
        .int("axis", 1);
    row(&host, "cat 2 of 8x8", &cat.output(Dtype::F32, &[8, 16]), || tch::Tensor::cat(&[&a, &b], 1));
}

fn row<T>(host: &Host, name: &str, op: &OpSpec, mut eager: impl FnMut() -> T) {
    let per_run = |bind: bool| {
        let time = |runs: usize| {
            let options = RunOptions { bind, runs, ..RunOptions::default() };
            least(|| drop(black_box(host.run_with(op, &options).expect("it runs"))))
        };
        // What making, binding and comparing cost is in both.
        (time(STEPS + 1) - time(1)) / STEPS as f64
    };
    let eager = least(|| (0..STEPS).for_each(|_| drop(black_box(eager())))) / STEPS as f64;
    println!("{name:<28} {:>10.0} {:>10.0} {eager:>10.0}", per_run(true), per_run(false));
}

/// Nanoseconds of the fastest of many rounds.
fn least(mut work: impl FnMut()) -> f64 {
    (0..ROUNDS).fold(f64::INFINITY, |least, _| {
        let start = Instant::now();
        work();
        least.min(start.elapsed().as_nanos() as f64)
    })
}
