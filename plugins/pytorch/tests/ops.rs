//! Ops through the tables of the ABI, against oracles that are written out here.

use thunderhead_sdk::testing::{Host, OpSpec, RunOptions, Tensor, Value};
use thunderhead_sdk::{Dtype, Number};

fn host() -> Host {
    host_with(true)
}

fn host_with(deterministic: bool) -> Host {
    let options = [("deterministic", Value::Bool(deterministic))];
    Host::from_entry(thunderhead_pytorch::entry(), "pytorch", &options).expect("the executor is made")
}

fn f32s(dims: &[i64], values: &[f32]) -> Tensor {
    Tensor::new(dims, values.to_vec())
}

/// Runs an op bound and unbound, once and twice; all must agree, to the bit.
fn run(op: &OpSpec) -> Vec<Tensor> {
    let host = host();
    host.check(op).expect("no failure").expect("it is taken");
    let once = host.run(op).expect("it runs");
    for (bind, runs) in [(false, 1), (true, 2)] {
        let options = RunOptions { bind, runs, ..RunOptions::default() };
        let again = host.run_with(op, &options).expect("it runs");
        for (a, b) in once.iter().zip(&again) {
            assert_eq!(a.bytes(), b.bytes(), "bind: {bind}, runs: {runs}");
        }
    }
    once
}

#[track_caller]
fn close(found: &Tensor, expected: &[f32]) {
    let found = found.to_vec::<f32>();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-5 + 1e-5 * expected.abs(), "{found} instead of {expected}");
    }
}

#[test]
fn adds_with_broadcast_numbers_and_scale() {
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let op = OpSpec::new("torch.add")
        .tensor("a", a.clone())
        .tensor("b", f32s(&[3], &[10.0, 20.0, 30.0]))
        .int("alpha", 2);
    let out = run(&op.output(Dtype::F32, &[2, 3]));
    close(&out[0], &[21.0, 42.0, 63.0, 24.0, 45.0, 66.0]);
    // A float number does not raise the dtype of an f32 tensor.
    let op = OpSpec::new("torch.add").tensor("a", a.clone()).float("b", 0.5).int("alpha", 1);
    close(&run(&op.output(Dtype::F32, &[2, 3]))[0], &[1.5, 2.5, 3.5, 4.5, 5.5, 6.5]);
    // A number known only at run.
    let op = OpSpec::new("torch.add").tensor("a", a).slot("b", Number::Float(1.0)).int("alpha", 1);
    close(&run(&op.output(Dtype::F32, &[2, 3]))[0], &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn multiplies_matrices_in_every_form() {
    let a = f32s(&[2, 2, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.]);
    let w = f32s(&[2, 3], &[1., 0., 1., 0., 1., 0.]);
    let linear = |bias: Option<Tensor>| {
        let op = OpSpec::new("torch.linear").tensor("a", a.clone()).tensor("w", w.clone());
        let op = match bias {
            Some(bias) => op.tensor("bias", bias),
            None => op.none("bias"),
        };
        run(&op.output(Dtype::F32, &[2, 2, 2])).remove(0)
    };
    close(&linear(None), &[4., 2., 10., 5., 16., 8., 22., 11.]);
    close(&linear(Some(f32s(&[2], &[100., 200.]))), &[104., 202., 110., 205., 116., 208., 122., 211.]);
    // A transposed left side cannot be seen as one matrix.
    let at = a.clone().transposed(0, 1);
    let op = OpSpec::new("torch.linear").tensor("a", at).tensor("w", w.clone()).none("bias");
    close(&run(&op.output(Dtype::F32, &[2, 2, 2]))[0], &[4., 2., 16., 8., 10., 5., 22., 11.]);
    let matmul = |a: &Tensor, b: &Tensor, dims: &[i64]| {
        let op = OpSpec::new("torch.matmul").tensor("a", a.clone()).tensor("b", b.clone());
        run(&op.output(Dtype::F32, dims)).remove(0)
    };
    let wt = w.transposed(0, 1);
    close(&matmul(&a, &wt, &[2, 2, 2]), &[4., 2., 10., 5., 16., 8., 22., 11.]);
    let eye = f32s(&[2, 3, 3], &[1., 0., 0., 0., 1., 0., 0., 0., 1., 2., 0., 0., 0., 2., 0., 0., 0., 2.]);
    close(&matmul(&a, &eye, &[2, 2, 3]), &[1., 2., 3., 4., 5., 6., 14., 16., 18., 20., 22., 24.]);
    let four = |tensor: &Tensor, dims: &[i64], strides: &[i64]| tensor.clone().strided(dims, strides, 0);
    let (a4, e4) = (four(&a, &[2, 1, 2, 3], &[6, 6, 3, 1]), four(&eye, &[2, 1, 3, 3], &[9, 9, 3, 1]));
    close(&matmul(&a4, &e4, &[2, 1, 2, 3]), &[1., 2., 3., 4., 5., 6., 14., 16., 18., 20., 22., 24.]);
    let vector = f32s(&[3], &[1., 1., 1.]);
    close(&matmul(&a, &vector, &[2, 2]), &[6., 15., 24., 33.]);
    let op = OpSpec::new("torch.addmm").tensor("c", f32s(&[2], &[f32::NAN, f32::NAN]));
    let op = op.tensor("a", f32s(&[1, 2], &[1., 2.])).tensor("b", f32s(&[2, 2], &[1., 2., 3., 4.]));
    let op = op.int("beta", 0).int("alpha", 1);
    close(&run(&op.output(Dtype::F32, &[1, 2]))[0], &[7., 10.]);
}

#[test]
fn looks_rows_up() {
    let weight = f32s(&[3, 2], &[0., 1., 10., 11., 20., 21.]);
    let index = Tensor::new(&[2, 2], vec![2i64, 0, 1, 2]);
    let op = OpSpec::new("torch.embedding").tensor("weight", weight.clone()).tensor("index", index.clone());
    let op = op.int("padding_idx", -1).bool("scale_by_freq", false).output(Dtype::F32, &[2, 2, 2]);
    close(&run(&op)[0], &[20., 21., 0., 1., 10., 11., 20., 21.]);
    let op = OpSpec::new("torch.embedding")
        .tensor("weight", weight.clone())
        .tensor("index", index.transposed(0, 1));
    let op = op.int("padding_idx", -1).bool("scale_by_freq", false).output(Dtype::F32, &[2, 2, 2]);
    close(&run(&op)[0], &[20., 21., 10., 11., 0., 1., 20., 21.]);
    // ATen's complaint becomes an error.
    let op = OpSpec::new("torch.embedding")
        .tensor("weight", weight)
        .tensor("index", Tensor::new(&[1], vec![3i64]));
    let op = op.int("padding_idx", -1).bool("scale_by_freq", false).output(Dtype::F32, &[1, 2]);
    let error = host().run(&op).expect_err("row 3 of 3");
    assert!(error.message().contains("out of range"), "{error}");
}

#[test]
fn writes_parts_in_place_where_it_may() {
    let op = OpSpec::new("torch.index_copy").tensor("a", f32s(&[3, 2], &[0.; 6])).int("axis", 0);
    let op = op.tensor("index", Tensor::new(&[1], vec![1i64])).tensor("src", f32s(&[1, 2], &[5., 6.]));
    let op = op.output(Dtype::F32, &[3, 2]);
    close(&run(&op)[0], &[0., 0., 5., 6., 0., 0.]);
    assert_eq!(host().kernel(&op).expect("it is made").in_place, [(0, 0)]);
    let shared = RunOptions { in_place: true, ..RunOptions::default() };
    close(&host().run_with(&op, &shared).expect("it runs")[0], &[0., 0., 5., 6., 0., 0.]);

    let op = OpSpec::new("prims.slice_scatter")
        .tensor("a", f32s(&[4], &[1., 2., 3., 4.]))
        .tensor("src", f32s(&[2], &[8., 9.]));
    let op = op.ints("start", &[0]).ints("end", &[3]).ints("step", &[2]).output(Dtype::F32, &[4]);
    close(&run(&op)[0], &[8., 2., 9., 4.]);

    let op = OpSpec::new("torch.index_put").tensor("a", f32s(&[2, 2], &[0.; 4]));
    let index = Tensor::new(&[2], vec![0i64, 1]);
    let op =
        op.tensors("indices", vec![Some(index.clone()), Some(index)]).tensor("values", f32s(&[2], &[3., 4.]));
    close(&run(&op.bool("accumulate", false).output(Dtype::F32, &[2, 2]))[0], &[3., 0., 0., 4.]);

    let op = OpSpec::new("torch.add")
        .tensor("a", f32s(&[2], &[1., 2.]))
        .tensor("b", f32s(&[2], &[3., 4.]))
        .int("alpha", 1);
    let op = op.output(Dtype::F32, &[2]);
    assert_eq!(host().kernel(&op).expect("it is made").in_place, [(0, 0), (0, 1)]);
    close(&host().run_with(&op, &shared).expect("it runs")[0], &[4., 6.]);
}

#[test]
fn refuses_with_a_code() {
    let refusal =
        |op: &OpSpec, deterministic: bool| host_with(deterministic).check(op).expect("no failure").err();
    let op = OpSpec::new("torch.scatter_add").tensor("a", f32s(&[2], &[0.; 2])).int("axis", 0);
    let op = op.tensor("index", Tensor::new(&[3], vec![0i64, 0, 1])).tensor("src", f32s(&[3], &[1., 2., 3.]));
    let op = op.output(Dtype::F32, &[2]);
    assert_eq!(refusal(&op, true).expect("refused").code, "not_deterministic");
    assert!(refusal(&op, false).is_none());
    close(&host_with(false).run(&op).expect("it runs")[0], &[3., 3.]);

    let attention = |dropout: f64| {
        let tensor = || f32s(&[1, 1, 2, 2], &[1., 0., 0., 1.]);
        let op =
            OpSpec::new("torch.scaled_dot_product_attention").tensor("q", tensor()).tensor("k", tensor());
        let op = op.tensor("v", tensor()).none("mask").float("dropout_p", dropout).bool("is_causal", true);
        let op = op.none("scale").bool("enable_gqa", false);
        let op =
            if dropout > 0.0 { op.int("seed", 1).int("offset", 0) } else { op.none("seed").none("offset") };
        op.output(Dtype::F32, &[1, 1, 2, 2])
    };
    assert_eq!(refusal(&attention(0.5), true).expect("refused").code, "random");
    let e = (0.5f32.sqrt()).exp();
    close(&run(&attention(0.0))[0], &[1., 0., 1. / (1. + e), e / (1. + e)]);

    let dropout = |train: bool| {
        let op = OpSpec::new("torch.dropout")
            .tensor("a", f32s(&[2], &[1., 2.]))
            .float("p", 0.5)
            .bool("train", train);
        op.str("kind", "element").int("seed", 1).int("offset", 0).output(Dtype::F32, &[2])
    };
    assert_eq!(refusal(&dropout(true), true).expect("refused").code, "random");
    close(&run(&dropout(false))[0], &[1., 2.]);

    let op =
        OpSpec::new("aten.no_such_op.default").tensor("self", f32s(&[1], &[1.])).output(Dtype::F32, &[1]);
    assert_eq!(refusal(&op, true).expect("refused").code, "op_unknown");
}

#[test]
fn takes_backward_strides_empty_and_scalar_tensors() {
    let backwards = f32s(&[3], &[1., 2., 3.]).strided(&[3], &[-1], 2);
    let op = OpSpec::new("torch.add").tensor("a", backwards.clone()).int("b", 1).int("alpha", 1);
    close(&run(&op.output(Dtype::F32, &[3]))[0], &[4., 3., 2.]);
    let op = OpSpec::new("torch.linear")
        .tensor("a", backwards)
        .tensor("w", f32s(&[1, 3], &[1., 10., 100.]))
        .none("bias");
    close(&run(&op.output(Dtype::F32, &[1]))[0], &[123.]);
    let op = OpSpec::new("torch.exp").tensor("a", f32s(&[0, 4], &[])).output(Dtype::F32, &[0, 4]);
    assert_eq!(run(&op)[0].to_vec::<f32>(), Vec::<f32>::new());
    let op = OpSpec::new("torch.exp").tensor("a", f32s(&[], &[0.])).output(Dtype::F32, &[]);
    close(&run(&op)[0], &[1.]);
}

#[test]
fn asks_for_room_when_it_knows_the_size() {
    let op = OpSpec::new("torch.nonzero")
        .tensor("a", f32s(&[2, 2], &[0., 1., 1., 0.]))
        .output(Dtype::I64, &[-1, 2]);
    let out = host().run(&op).expect("it runs");
    assert_eq!(out[0].dims(), [2, 2]);
    assert_eq!(out[0].to_vec::<i64>(), [0, 1, 1, 0]);
}

#[test]
fn reduces_and_normalises() {
    let a = f32s(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let op = OpSpec::new("torch.sum")
        .tensor("a", a.clone())
        .ints("axes", &[-1])
        .bool("keepdim", true)
        .none("dtype");
    close(&run(&op.output(Dtype::F32, &[2, 1]))[0], &[6., 15.]);
    let op =
        OpSpec::new("torch.mean").tensor("a", a.clone()).none("axes").bool("keepdim", false).none("dtype");
    close(&run(&op.output(Dtype::F32, &[]))[0], &[3.5]);
    let op = OpSpec::new("prims.sum").tensor("a", a.clone()).ints("axes", &[]).none("out_dtype");
    close(&run(&op.output(Dtype::F32, &[2, 3]))[0], &[1., 2., 3., 4., 5., 6.]);
    let op = OpSpec::new("prims.prod").tensor("a", a.clone()).ints("axes", &[0, 1]).none("out_dtype");
    close(&run(&op.output(Dtype::F32, &[]))[0], &[720.]);
    let op = OpSpec::new("prims.var_mean").tensor("a", a.clone()).ints("axes", &[1]).int("correction", 1);
    let out = run(&op.output(Dtype::F32, &[2]).output(Dtype::F32, &[2]));
    close(&out[0], &[1., 1.]);
    close(&out[1], &[2., 5.]);
    let op =
        OpSpec::new("torch.softmax").tensor("a", f32s(&[2], &[0., 3f32.ln()])).int("axis", 0).none("dtype");
    close(&run(&op.output(Dtype::F32, &[2]))[0], &[0.25, 0.75]);
    let op = OpSpec::new("torch.softmax")
        .tensor("a", f32s(&[2], &[0., 0.]))
        .int("axis", 0)
        .dtype("dtype", Dtype::F64);
    assert_eq!(run(&op.output(Dtype::F64, &[2]))[0].to_vec::<f64>(), [0.5, 0.5]);
    let op = OpSpec::new("torch.max_dim").tensor("a", a.clone()).int("axis", 0).bool("keepdim", false);
    let out = run(&op.output(Dtype::F32, &[3]).output(Dtype::I64, &[3]));
    close(&out[0], &[4., 5., 6.]);
    assert_eq!(out[1].to_vec::<i64>(), [1, 1, 1]);
    let op = OpSpec::new("torch.layer_norm").tensor("a", f32s(&[1, 2], &[1., 3.])).ints("dims", &[2]);
    let op = op.none("weight").tensor("bias", f32s(&[2], &[10., 20.])).float("eps", 0.0);
    close(&run(&op.output(Dtype::F32, &[1, 2]))[0], &[9., 21.]);
    let op = OpSpec::new("torch.rms_norm").tensor("a", f32s(&[2], &[3., 4.])).ints("dims", &[2]);
    let op = op.tensor("weight", f32s(&[2], &[1., 2.])).float("eps", 0.0);
    let rms = 12.5f32.sqrt();
    close(&run(&op.output(Dtype::F32, &[2]))[0], &[3. / rms, 8. / rms]);
}

#[test]
fn shapes_copy_where_they_must() {
    let a = f32s(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let op = OpSpec::new("torch.reshape").tensor("a", a.clone().transposed(0, 1)).ints("dims", &[6]);
    close(&run(&op.output(Dtype::F32, &[6]))[0], &[1., 4., 2., 5., 3., 6.]);
    let op = OpSpec::new("prims.broadcast_in_dim").tensor("a", f32s(&[2], &[1., 2.])).ints("dims", &[2, 3]);
    close(&run(&op.ints("broadcast_dims", &[0]).output(Dtype::F32, &[2, 3]))[0], &[1., 1., 1., 2., 2., 2.]);
    let op = OpSpec::new("torch.split").tensor("a", a.clone()).ints("sizes", &[1, 2]).int("axis", 1);
    let out = run(&op.output(Dtype::F32, &[2, 1]).output(Dtype::F32, &[2, 2]));
    close(&out[0], &[1., 4.]);
    close(&out[1], &[2., 3., 5., 6.]);
    let config = thunderhead_sdk::testing::Arg::Lists(vec![vec![1, 0, 1], vec![0, 1, 0]]);
    let op = OpSpec::new("prims.pad")
        .tensor("a", f32s(&[2, 1], &[1., 2.]))
        .float("value", 9.)
        .arg("config", config);
    close(&run(&op.output(Dtype::F32, &[4, 2]))[0], &[9., 9., 1., 9., 9., 9., 2., 9.]);
    let op = OpSpec::new("torch.pad")
        .tensor("a", a.clone())
        .ints("pad", &[-1, 1])
        .str("mode", "constant")
        .float("value", 0.);
    close(&run(&op.output(Dtype::F32, &[2, 3]))[0], &[2., 3., 0., 5., 6., 0.]);
    let op = OpSpec::new("torch.cat").tensors("tensors", vec![Some(a.clone()), Some(a)]).int("axis", 1);
    let expected = [1., 2., 3., 1., 2., 3., 4., 5., 6., 4., 5., 6.];
    close(&run(&op.output(Dtype::F32, &[2, 6]))[0], &expected);
    let op = OpSpec::new("torch.select")
        .tensor("a", f32s(&[3], &[7., 8., 9.]))
        .int("axis", 0)
        .slot("index", Number::Int(2));
    close(&run(&op.output(Dtype::F32, &[]))[0], &[9.]);
    let op =
        OpSpec::new("torch.arange").int("start", 1).int("end", 7).int("step", 2).none("dtype").none("device");
    assert_eq!(run(&op.output(Dtype::I64, &[3]))[0].to_vec::<i64>(), [1, 3, 5]);
}

#[test]
fn fills_where_a_mask_says() {
    let a = || f32s(&[2, 2], &[1., 2., 3., 4.]);
    let mask = Tensor::new(&[2], vec![true, false]);
    let op = OpSpec::new("torch.masked_fill").tensor("a", a()).tensor("mask", mask.clone());
    close(&run(&op.float("value", -9.0).output(Dtype::F32, &[2, 2]))[0], &[-9., 2., -9., 4.]);
    // The value takes the dtype of the tensor.
    let op =
        OpSpec::new("torch.masked_fill").tensor("a", Tensor::new(&[2], vec![1i64, 2])).tensor("mask", mask);
    assert_eq!(run(&op.float("value", 7.0).output(Dtype::I64, &[2]))[0].to_vec::<i64>(), [7, 2]);
}

#[test]
fn runs_opaque_ops_boxed() {
    let op = OpSpec::new("aten.special_bessel_j0.default")
        .tensor("self", f32s(&[1], &[0.]))
        .output(Dtype::F32, &[1]);
    close(&run(&op)[0], &[1.]);
    let op = OpSpec::new("aten.unbind.int").tensor("self", f32s(&[2, 1], &[1., 2.])).int("dim", 0);
    let out = run(&op.output(Dtype::F32, &[1]).output(Dtype::F32, &[1]));
    close(&out[1], &[2.]);
    // A written argument is copied first, and its new value comes back behind the results.
    let op = OpSpec::new("aten.add_.Tensor")
        .tensor("self", f32s(&[2], &[1., 2.]))
        .tensor("other", f32s(&[2], &[3., 4.]));
    let out = run(&op.int("alpha", 1).output(Dtype::F32, &[2]).output(Dtype::F32, &[2]));
    close(&out[0], &[4., 6.]);
    close(&out[1], &[4., 6.]);
}

#[test]
fn half_types_and_integers_keep_their_dtype() {
    use thunderhead_sdk::half::bf16;
    let half = |values: &[f32]| {
        Tensor::new(&[values.len() as i64], values.iter().map(|v| bf16::from_f32(*v)).collect())
    };
    let op =
        OpSpec::new("torch.mul").tensor("a", half(&[1.5, 2.0])).float("b", 2.0).output(Dtype::BF16, &[2]);
    assert_eq!(run(&op)[0].to_vec::<bf16>(), [bf16::from_f32(3.0), bf16::from_f32(4.0)]);
    let op = OpSpec::new("prims.div")
        .tensor("a", Tensor::new(&[2], vec![7i32, -7]))
        .int("b", 2)
        .output(Dtype::I32, &[2]);
    assert_eq!(run(&op)[0].to_vec::<i32>(), [3, -3]);
    let op = OpSpec::new("prims.convert_element_type")
        .tensor("a", f32s(&[2], &[1.9, -1.9]))
        .dtype("dtype", Dtype::I64);
    assert_eq!(run(&op.output(Dtype::I64, &[2]))[0].to_vec::<i64>(), [1, -1]);
}

#[test]
fn leaves_the_callers_threads_alone() {
    let before = tch::get_num_threads();
    let op = OpSpec::new("torch.exp").tensor("a", f32s(&[4], &[0.; 4])).output(Dtype::F32, &[4]);
    for threads in [1, 2, 3] {
        host().run_with(&op, &RunOptions { threads, ..RunOptions::default() }).expect("it runs");
        assert_eq!(tch::get_num_threads(), before);
    }
    host().selftest().expect("libtorch works");
}
