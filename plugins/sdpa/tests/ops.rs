//! Attention through the tables of the ABI, against an oracle that is written out here.

use thunderhead_manifest::Manifest;
use thunderhead_sdk::Dtype;
use thunderhead_sdk::testing::{Host, OpSpec, RunOptions, Tensor};

#[test]
fn the_manifest_is_read_without_a_warning() {
    let (manifest, warnings) = Manifest::parse(thunderhead_sdpa::MANIFEST).expect("it parses");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(manifest.executors.len(), 1);
}

fn host() -> Host {
    Host::from_entry(thunderhead_sdpa::entry(), "sdpa", &[]).expect("the executor is made")
}

/// Numbers in -1..1, the same on each machine.
fn values(dims: &[i64], mut seed: u64) -> Vec<f32> {
    let n = dims.iter().product::<i64>();
    (0..n)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Sizes and masks of one case.
#[derive(Clone)]
struct Case {
    batch: usize,
    heads: usize,
    key_heads: usize,
    rows: usize,
    keys: usize,
    size: usize,
    causal: bool,
    /// Dims, and what is added to the scores.
    mask: Option<(Vec<i64>, Vec<f32>)>,
    scale: Option<f64>,
}

impl Case {
    fn plain() -> Case {
        let (batch, heads, key_heads, rows, keys, size) = (2, 4, 4, 5, 7, 8);
        Case { batch, heads, key_heads, rows, keys, size, causal: false, mask: None, scale: None }
    }

    fn q_dims(&self) -> Vec<i64> {
        [self.batch, self.heads, self.rows, self.size].map(|dim| dim as i64).to_vec()
    }

    fn k_dims(&self) -> Vec<i64> {
        [self.batch, self.key_heads, self.keys, self.size].map(|dim| dim as i64).to_vec()
    }

    fn lse_dims(&self) -> Vec<i64> {
        [self.batch, self.heads, self.rows].map(|dim| dim as i64).to_vec()
    }

    fn operands(&self) -> [Vec<f32>; 3] {
        [values(&self.q_dims(), 1), values(&self.k_dims(), 2), values(&self.k_dims(), 3)]
    }

    fn mask_at(&self, place: [usize; 4]) -> f64 {
        let Some((dims, values)) = &self.mask else { return 0.0 };
        let skipped = 4 - dims.len();
        let at = dims
            .iter()
            .zip(&place[skipped..])
            .fold(0, |at, (dim, index)| at * *dim as usize + if *dim == 1 { 0 } else { *index });
        f64::from(values[at])
    }

    /// Output, log-sum-exp, and the gradients in q, k and v of the sum of `out * g`, in f64.
    fn oracle(&self, g: &[f32]) -> [Vec<f64>; 5] {
        let [q, k, v] = self.operands().map(|v| v.into_iter().map(f64::from).collect::<Vec<f64>>());
        let scale = self.scale.unwrap_or(1.0 / (self.size as f64).sqrt());
        let (mut out, mut lse) = (vec![0.0; q.len()], Vec::new());
        let (mut gq, mut gk, mut gv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        for b in 0..self.batch {
            for h in 0..self.heads {
                let head = b * self.key_heads + h * self.key_heads / self.heads;
                for i in 0..self.rows {
                    let q_at = ((b * self.heads + h) * self.rows + i) * self.size;
                    let k_at = |j: usize| (head * self.keys + j) * self.size;
                    let scores: Vec<f64> = (0..self.keys)
                        .map(|j| {
                            let dot: f64 = (0..self.size).map(|e| q[q_at + e] * k[k_at(j) + e]).sum();
                            let hidden = self.causal && j > i;
                            if hidden { f64::NEG_INFINITY } else { dot * scale + self.mask_at([b, h, i, j]) }
                        })
                        .collect();
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    if top == f64::NEG_INFINITY {
                        lse.push(0.0);
                        continue;
                    }
                    let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
                    lse.push(top + total.ln());
                    let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp() / total).collect();
                    let g_row: Vec<f64> = (0..self.size).map(|e| f64::from(g[q_at + e])).collect();
                    let g_weights: Vec<f64> = (0..self.keys)
                        .map(|j| (0..self.size).map(|e| g_row[e] * v[k_at(j) + e]).sum())
                        .collect();
                    let mean: f64 = weights.iter().zip(&g_weights).map(|(w, g)| w * g).sum();
                    for j in 0..self.keys {
                        let g_score = weights[j] * (g_weights[j] - mean) * scale;
                        for e in 0..self.size {
                            out[q_at + e] += weights[j] * v[k_at(j) + e];
                            gv[k_at(j) + e] += weights[j] * g_row[e];
                            gq[q_at + e] += g_score * k[k_at(j) + e];
                            gk[k_at(j) + e] += g_score * q[q_at + e];
                        }
                    }
                }
            }
        }
        [out, lse, gq, gk, gv]
    }

    fn forward(&self, name: &str, bools: bool) -> OpSpec {
        let [q, k, v] = self.operands();
        let mut op = OpSpec::new(name)
            .tensor("q", Tensor::new(&self.q_dims(), q))
            .tensor("k", Tensor::new(&self.k_dims(), k))
            .tensor("v", Tensor::new(&self.k_dims(), v));
        op = self.with_mask(op, bools).float("dropout_p", 0.0).bool("is_causal", self.causal);
        op = match self.scale {
            Some(scale) => op.float("scale", scale),
            None => op.none("scale"),
        };
        op = op.bool("enable_gqa", self.key_heads != self.heads).none("seed").none("offset");
        op.output(Dtype::F32, &self.q_dims())
    }

    fn with_mask(&self, op: OpSpec, bools: bool) -> OpSpec {
        match &self.mask {
            None => op.none("mask"),
            Some((dims, values)) if bools => {
                let seen: Vec<bool> = values.iter().map(|value| *value == 0.0).collect();
                op.tensor("mask", Tensor::new(dims, seen))
            }
            Some((dims, values)) => op.tensor("mask", Tensor::new(dims, values.clone())),
        }
    }

    /// Runs forward, forward with log-sum-exp, and backward, and compares them with the oracle.
    #[track_caller]
    fn holds(&self, bools: bool) {
        let g = values(&self.q_dims(), 9);
        let [out, lse, gq, gk, gv] = self.oracle(&g);
        let plain = run(&self.forward("torch.scaled_dot_product_attention", bools));
        close("out", &plain[0], &out);
        let both = run(&self
            .forward("torch.scaled_dot_product_attention_lse", bools)
            .output(Dtype::F32, &self.lse_dims()));
        close("out", &both[0], &out);
        close("lse", &both[1], &lse);
        let [q, k, v] = self.operands();
        let mut op = OpSpec::new("torch.scaled_dot_product_attention_backward")
            .tensor("g", Tensor::new(&self.q_dims(), g))
            .tensor("q", Tensor::new(&self.q_dims(), q))
            .tensor("k", Tensor::new(&self.k_dims(), k))
            .tensor("v", Tensor::new(&self.k_dims(), v))
            .tensor("out", both[0].clone())
            .tensor("lse", both[1].clone())
            .float("dropout_p", 0.0)
            .bool("is_causal", self.causal);
        op = self.with_mask(op, bools);
        op = match self.scale {
            Some(scale) => op.float("scale", scale),
            None => op.none("scale"),
        };
        op = op.bool("enable_gqa", self.key_heads != self.heads).none("seed").none("offset");
        let grads = run(&op
            .output(Dtype::F32, &self.q_dims())
            .output(Dtype::F32, &self.k_dims())
            .output(Dtype::F32, &self.k_dims()));
        for (name, found, expected) in
            [("g_q", &grads[0], gq), ("g_k", &grads[1], gk), ("g_v", &grads[2], gv)]
        {
            close(name, found, &expected);
        }
    }
}

/// Runs an op bound and unbound; both agree to the bit.
#[track_caller]
fn run(op: &OpSpec) -> Vec<Tensor> {
    let host = host();
    host.check(op).expect("no failure").expect("it is taken");
    let once = host.run(op).expect("it runs");
    let options = RunOptions { bind: true, runs: 2, ..RunOptions::default() };
    for (a, b) in once.iter().zip(&host.run_with(op, &options).expect("it runs")) {
        assert_eq!(a.bytes(), b.bytes());
    }
    once
}

#[track_caller]
fn close(what: &str, found: &Tensor, expected: &[f64]) {
    let found = found.to_vec::<f32>();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() <= 2e-6, "{what}: {found} instead of {expected}");
    }
}

fn mask(dims: &[i64]) -> Option<(Vec<i64>, Vec<f32>)> {
    Some((dims.to_vec(), values(dims, 5)))
}

#[test]
fn plain_causal_and_scaled() {
    Case::plain().holds(false);
    Case { causal: true, ..Case::plain() }.holds(false);
    Case { causal: true, rows: 9, ..Case::plain() }.holds(false);
    Case { scale: Some(0.25), ..Case::plain() }.holds(false);
}

#[test]
fn grouped_key_heads() {
    Case { key_heads: 2, ..Case::plain() }.holds(false);
    Case { key_heads: 2, causal: true, rows: 40, keys: 70, ..Case::plain() }.holds(false);
}

#[test]
fn masks_that_broadcast() {
    for dims in [&[5, 7][..], &[1, 7], &[2, 1, 1, 7], &[2, 4, 5, 7], &[4, 5, 7], &[7], &[1, 4, 1, 1]] {
        Case { mask: mask(dims), ..Case::plain() }.holds(false);
    }
    Case { mask: mask(&[5, 7]), causal: true, ..Case::plain() }.holds(false);
}

#[test]
fn bool_masks_and_rows_that_see_nothing() {
    let mut seen = vec![0.0; 35];
    for at in [0, 3, 8, 30] {
        seen[at] = f32::NEG_INFINITY;
    }
    seen[14..21].fill(f32::NEG_INFINITY);
    let case = Case { mask: Some((vec![5, 7], seen)), ..Case::plain() };
    case.holds(true);
    case.holds(false);
}

#[test]
fn fewer_dims_are_seen_as_four() {
    let case = Case { batch: 1, heads: 1, key_heads: 1, ..Case::plain() };
    let [out, lse, ..] = case.oracle(&values(&case.q_dims(), 9));
    let [q, k, v] = case.operands();
    let op = OpSpec::new("torch.scaled_dot_product_attention_lse")
        .tensor("q", Tensor::new(&[5, 8], q))
        .tensor("k", Tensor::new(&[7, 8], k))
        .tensor("v", Tensor::new(&[7, 8], v))
        .float("dropout_p", 0.0)
        .bool("is_causal", false)
        .none("mask")
        .none("scale")
        .bool("enable_gqa", false)
        .none("seed")
        .none("offset");
    let found = run(&op.output(Dtype::F32, &[5, 8]).output(Dtype::F32, &[5]));
    close("out", &found[0], &out);
    close("lse", &found[1], &lse);
}

#[test]
fn what_the_kernels_cannot_take_is_refused_with_the_attribute() {
    let refused = |op: &OpSpec| host().check(op).expect("no failure").expect_err("it is refused").to_string();
    let name = "torch.scaled_dot_product_attention";
    let with = |q: &[i64], k: &[i64], v: &[i64], dropout: f64| {
        let tensor = |dims: &[i64]| Tensor::new(dims, values(dims, 1));
        let op = OpSpec::new(name).tensor("q", tensor(q)).tensor("k", tensor(k)).tensor("v", tensor(v));
        let op = op.none("mask").float("dropout_p", dropout).bool("is_causal", false).none("scale");
        op.bool("enable_gqa", false).int("seed", 1).int("offset", 0).output(Dtype::F32, q)
    };
    let (q, k) = ([2, 4, 5, 8], [2, 4, 7, 8]);
    assert!(refused(&with(&q, &k, &k, 0.5)).contains("drops weights"));
    assert!(refused(&with(&q, &k, &[2, 4, 7, 3], 0.0)).contains("different head sizes"));
    assert!(refused(&with(&q, &[3, 4, 7, 8], &[3, 4, 7, 8], 0.0)).contains("batches"));
    assert!(refused(&with(&q, &[2, 2, 7, 8], &[2, 2, 7, 8], 0.0)).contains("do not share"));
    assert!(refused(&with(&q, &[2, 4, 0, 8], &[2, 4, 0, 8], 0.0)).contains("empty"));
    assert!(refused(&with(&[1, 2, 4, 5, 8], &[1, 2, 4, 7, 8], &[1, 2, 4, 7, 8], 0.0)).contains("5 dims"));
}
