//! Models to time, written as traces with weights from a seed, so that no large file lies in the repository.
//!
//! Each is the exported form of the module of the same name in `models.py`, op by op.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::tool::{self, Failure};

/// A model to time.
pub struct Model {
    /// Its name in reports; never changed once given.
    pub name: &'static str,
    /// Timed with gradients, too.
    pub trains: bool,
    /// Only timed where asked for by name: takes gigabytes.
    pub large: bool,
    write: fn(&mut Trace),
}

/// All of them.
pub const MODELS: &[Model] = &[
    Model { name: "mlp_64", trains: true, large: false, write: |t| mlp(t, 64, 8) },
    Model { name: "gelu_bias_mul_1m", trains: false, large: false, write: |t| gelu_bias_mul(t, 1024, 1024) },
    Model { name: "softmax_512x1024", trains: false, large: false, write: |t| softmax(t, 512, 1024) },
    Model { name: "rms_norm_512x4096", trains: false, large: false, write: |t| rms(t, 512, 4096) },
    Model { name: "layer_norm_512x768", trains: true, large: false, write: |t| residual_norm(t, 512, 768) },
    Model { name: "swiglu_512x1376", trains: false, large: false, write: |t| swiglu(t, 512, 1376) },
    Model { name: "rope_2x16x256x64", trains: false, large: false, write: rope_alone },
    Model { name: "llama_512", trains: true, large: false, write: |t| llama(t, &Llama::SMALL) },
    Model { name: "llama_7b", trains: false, large: true, write: |t| llama(t, &Llama::LARGE) },
];

/// Writes `NAME.trace` and `NAME.safetensors` into the folder, unless they are there; returns their paths.
pub fn write(model: &Model, folder: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    tool::io("create", folder, fs::create_dir_all(folder))?;
    let mut trace = Trace::default();
    (model.write)(&mut trace);
    let (text, weights) =
        (folder.join(format!("{}.trace", model.name)), folder.join(format!("{}.safetensors", model.name)));
    tool::io("write", &text, fs::write(&text, trace.text(model.name)))?;
    let size = trace.params.iter().map(|param| param.bytes()).sum::<u64>();
    if !fs::metadata(&weights).is_ok_and(|found| found.len() > size) {
        tool::io("write", &weights, write_weights(&trace.params, &weights))?;
    }
    Ok((text, weights))
}

/// A parameter, a buffer or an input.
struct Param {
    value: String,
    role: &'static str,
    name: String,
    dtype: &'static str,
    dims: Vec<u64>,
    fill: Fill,
}

/// What a parameter holds.
#[derive(Clone, Copy)]
enum Fill {
    /// Numbers of a spread of `1/sqrt` of the last dim.
    Random,
    One,
    /// Row `r`, column `c`: the cosine, or sine, of `r * 10000^(-2(c mod half)/dim)`.
    Rotary(fn(f64) -> f64),
    Given,
}

impl Param {
    fn bytes(&self) -> u64 {
        if self.role == "input" { 0 } else { self.dims.iter().product::<u64>() * 4 }
    }
}

/// A value of the trace: its name and dims; f32 unless it is an input of another type.
#[derive(Clone)]
struct Value {
    name: String,
    dims: Vec<u64>,
}

/// A trace in the making.
#[derive(Default)]
struct Trace {
    params: Vec<Param>,
    body: String,
    n_values: usize,
    outputs: Vec<String>,
}

fn dims_text(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    dims.join(", ")
}

impl Trace {
    fn given(
        &mut self,
        role: &'static str,
        name: &str,
        dtype: &'static str,
        dims: &[u64],
        fill: Fill,
    ) -> Value {
        let value = format!("%{}", name.replace('.', "_"));
        self.params.push(Param {
            value: value.clone(),
            role,
            name: name.into(),
            dtype,
            dims: dims.to_vec(),
            fill,
        });
        Value { name: value, dims: dims.to_vec() }
    }

    fn input(&mut self, dims: &[u64]) -> Value {
        let n = self.params.iter().filter(|param| param.role == "input").count();
        self.given("input", &format!("in{n}"), "f32", dims, Fill::Given)
    }

    fn param(&mut self, name: &str, dims: &[u64]) -> Value {
        self.given("param", name, "f32", dims, Fill::Random)
    }

    fn ones(&mut self, name: &str, dims: &[u64]) -> Value {
        self.given("param", name, "f32", dims, Fill::One)
    }

    fn op(&mut self, call: &str, dims: &[u64]) -> Value {
        let name = format!("%t{}", self.n_values);
        self.n_values += 1;
        writeln!(self.body, "    {name}: f32[{}] = torch.{call}", dims_text(dims)).expect("strings take all");
        Value { name, dims: dims.to_vec() }
    }

    /// A pointwise op of two, in the dims of the first.
    fn two(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        self.op(&format!("{op}({}, {})", a.name, b.name), &a.dims)
    }

    fn one(&mut self, op: &str, a: &Value) -> Value {
        self.op(&format!("{op}({})", a.name), &a.dims)
    }

    fn linear(&mut self, a: &Value, w: &Value) -> Value {
        let mut dims = a.dims.clone();
        *dims.last_mut().expect("rows") = w.dims[0];
        self.op(&format!("linear({}, {})", a.name, w.name), &dims)
    }

    fn reshape(&mut self, a: &Value, dims: &[u64]) -> Value {
        self.op(&format!("reshape({}, dims=[{}])", a.name, dims_text(dims)), dims)
    }

    fn swap(&mut self, a: &Value) -> Value {
        let mut dims = a.dims.clone();
        dims.swap(1, 2);
        self.op(&format!("transpose({}, axis0=1, axis1=2)", a.name), &dims)
    }

    fn slice(&mut self, a: &Value, axis: usize, start: u64, end: u64) -> Value {
        let mut dims = a.dims.clone();
        dims[axis] = end - start;
        let axis = if axis == 0 { String::new() } else { format!("axis={axis}, ") };
        self.op(&format!("slice({}, {axis}start={start}, end={end})", a.name), &dims)
    }

    /// `x * rsqrt(mean(x * x) + 1e-5) * w`, as models write it.
    fn rms_norm(&mut self, x: &Value, w: &Value) -> Value {
        let squares = self.two("mul", x, x);
        let mut dims = x.dims.clone();
        *dims.last_mut().expect("rows") = 1;
        let mean = self.op(&format!("mean({}, axes=[-1], keepdim=true)", squares.name), &dims);
        let shifted = self.op(&format!("add({}, 1e-05)", mean.name), &dims);
        let scale = self.one("rsqrt", &shifted);
        let scaled = self.two("mul", x, &scale);
        self.two("mul", &scaled, w)
    }

    /// Rotary embedding of `[B, H, T, D]`: `x * cos + cat(-x2, x1) * sin`.
    fn rope(&mut self, x: &Value, cos: &Value, sin: &Value) -> Value {
        let half = x.dims[3] / 2;
        let first = self.slice(x, 3, 0, half);
        let second = self.slice(x, 3, half, 2 * half);
        let negated = self.one("neg", &second);
        let turned = self.op(&format!("cat([{}, {}], axis=-1)", negated.name, first.name), &x.dims);
        let straight = self.two("mul", x, cos);
        let across = self.two("mul", &turned, sin);
        self.two("add", &straight, &across)
    }

    fn out(&mut self, value: &Value) {
        self.outputs.push(format!("{} as \"out{}\"", value.name, self.outputs.len()));
    }

    fn text(&self, model: &str) -> String {
        let mut text = String::from("thunderhead trace 1.0\n\ntrace forward(\n");
        for Param { value, role, name, dtype, dims, .. } in &self.params {
            writeln!(text, "    {value}: {dtype}[{}] {role} \"{name}\",", dims_text(dims))
                .expect("strings take all");
        }
        write!(
            text,
            ") stage acquired model \"{model}\" {{\n{}    return {}\n}}\n",
            self.body,
            self.outputs.join(", ")
        )
        .expect("strings take all");
        text
    }
}

fn mlp(t: &mut Trace, width: u64, batch: u64) {
    let mut x = t.input(&[batch, width]);
    for layer in 0..4 {
        let w = t.param(&format!("layers.{layer}.weight"), &[width, width]);
        let b = t.param(&format!("layers.{layer}.bias"), &[width]);
        let y = t.op(&format!("linear({}, {}, {})", x.name, w.name, b.name), &[batch, width]);
        x = t.one("gelu", &y);
    }
    t.out(&x);
}

fn gelu_bias_mul(t: &mut Trace, rows: u64, columns: u64) {
    let (x, y) = (t.input(&[rows, columns]), t.input(&[rows, columns]));
    let b = t.param("bias", &[columns]);
    let shifted = t.two("add", &x, &b);
    let bent = t.one("gelu", &shifted);
    let out = t.two("mul", &bent, &y);
    t.out(&out);
}

fn softmax(t: &mut Trace, rows: u64, columns: u64) {
    let x = t.input(&[rows, columns]);
    let out = t.op(&format!("softmax({}, axis=-1)", x.name), &x.dims);
    t.out(&out);
}

fn rms(t: &mut Trace, rows: u64, columns: u64) {
    let x = t.input(&[rows, columns]);
    let w = t.ones("weight", &[columns]);
    let out = t.rms_norm(&x, &w);
    t.out(&out);
}

fn residual_norm(t: &mut Trace, rows: u64, columns: u64) {
    let (x, y) = (t.input(&[rows, columns]), t.input(&[rows, columns]));
    let (w, b) = (t.ones("weight", &[columns]), t.param("bias", &[columns]));
    let sum = t.two("add", &x, &y);
    let out = t.op(
        &format!("layer_norm({}, dims=[{columns}], weight={}, bias={})", sum.name, w.name, b.name),
        &sum.dims,
    );
    t.out(&out);
}

fn swiglu(t: &mut Trace, rows: u64, columns: u64) {
    let (a, b) = (t.input(&[rows, columns]), t.input(&[rows, columns]));
    let bent = t.one("silu", &a);
    let out = t.two("mul", &bent, &b);
    t.out(&out);
}

fn rotary(t: &mut Trace, rows: u64, size: u64) -> (Value, Value) {
    let cos = t.given("buffer", "cos", "f32", &[rows, size], Fill::Rotary(f64::cos));
    let sin = t.given("buffer", "sin", "f32", &[rows, size], Fill::Rotary(f64::sin));
    (cos, sin)
}

fn rope_alone(t: &mut Trace) {
    let x = t.input(&[2, 16, 256, 64]);
    let (cos, sin) = rotary(t, 256, 64);
    let out = t.rope(&x, &cos, &sin);
    t.out(&out);
}

/// Sizes of one layer of a Llama with its head.
struct Llama {
    batch: u64,
    rows: u64,
    width: u64,
    heads: u64,
    hidden: u64,
    vocabulary: u64,
}

impl Llama {
    const SMALL: Llama = Llama { batch: 2, rows: 256, width: 512, heads: 8, hidden: 1376, vocabulary: 1000 };
    const LARGE: Llama =
        Llama { batch: 1, rows: 128, width: 4096, heads: 32, hidden: 11008, vocabulary: 32000 };
}

fn llama(t: &mut Trace, sizes: &Llama) {
    let Llama { batch, rows, width, heads, hidden, vocabulary } = *sizes;
    let head = width / heads;
    let table = t.param("wte.weight", &[vocabulary, width]);
    let norm_1 = t.ones("norm_1.weight", &[width]);
    let qkv_w = t.param("qkv.weight", &[3 * width, width]);
    let proj_w = t.param("proj.weight", &[width, width]);
    let norm_2 = t.ones("norm_2.weight", &[width]);
    let fc_1 = t.param("fc_1.weight", &[hidden, width]);
    let fc_2 = t.param("fc_2.weight", &[hidden, width]);
    let down = t.param("down.weight", &[width, hidden]);
    let norm_f = t.ones("norm_f.weight", &[width]);
    let lm_head = t.param("lm_head.weight", &[vocabulary, width]);
    let (cos, sin) = rotary(t, rows, head);
    let idx = t.given("input", "in0", "i64", &[batch, rows], Fill::Given);
    let x = t.op(&format!("embedding({}, {})", table.name, idx.name), &[batch, rows, width]);
    let normed = t.rms_norm(&x, &norm_1);
    let qkv = t.linear(&normed, &qkv_w);
    let mut parts = Vec::new();
    for part in 0..3 {
        let flat = t.slice(&qkv, 2, part * width, (part + 1) * width);
        let split = t.reshape(&flat, &[batch, rows, heads, head]);
        parts.push(t.swap(&split));
    }
    let (q, k) = (t.rope(&parts[0], &cos, &sin), t.rope(&parts[1], &cos, &sin));
    let attended = t.op(
        &format!("scaled_dot_product_attention({}, {}, {}, is_causal=true)", q.name, k.name, parts[2].name),
        &q.dims,
    );
    let back = t.swap(&attended);
    let flat = t.reshape(&back, &[batch, rows, width]);
    let projected = t.linear(&flat, &proj_w);
    let x = t.two("add", &projected, &x);
    let normed = t.rms_norm(&x, &norm_2);
    let (gate, up) = (t.linear(&normed, &fc_1), t.linear(&normed, &fc_2));
    let bent = t.one("silu", &gate);
    let product = t.two("mul", &bent, &up);
    let lowered = t.linear(&product, &down);
    let x = t.two("add", &lowered, &x);
    let normed = t.rms_norm(&x, &norm_f);
    let out = t.linear(&normed, &lm_head);
    t.out(&out);
}

/// The weights as safetensors: a JSON header behind its length, then the numbers.
fn write_weights(params: &[Param], path: &Path) -> std::io::Result<()> {
    let held: Vec<&Param> = params.iter().filter(|param| param.role != "input").collect();
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for param in &held {
        let end = at + param.bytes();
        header.insert(
            param.name.clone(),
            serde_json::json!({ "dtype": "F32", "shape": param.dims, "data_offsets": [at, end] }),
        );
        at = end;
    }
    let mut header = serde_json::Value::Object(header).to_string();
    // The data begins at a multiple of 8.
    header.push_str(&" ".repeat((8 - header.len() % 8) % 8));
    let unfinished = path.with_extension("unfinished");
    let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(&unfinished)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for param in held {
        let columns = *param.dims.last().unwrap_or(&1);
        let spread = 1.0 / (columns as f32).sqrt();
        for i in 0..param.dims.iter().product::<u64>() {
            let value = match param.fill {
                Fill::One | Fill::Given => 1.0,
                Fill::Random => {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    ((state >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * spread
                }
                Fill::Rotary(f) => {
                    let (row, pair) = (i / columns, i % columns % (columns / 2));
                    f(row as f64 * 10000f64.powf(-2.0 * pair as f64 / columns as f64)) as f32
                }
            };
            file.write_all(&value.to_le_bytes())?;
        }
    }
    file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(unfinished, path)
}
