//! Small graphs, each for one rule of the importer: what is written, and the trace that it must give.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::frontend::pt2::Pt2;
use crate::frontend::pt2::tests::zip_writer::{Item, write};
use crate::frontend::{Imported, InputKind, ModelError, import};
use crate::ir::Arg;
use crate::ir::text::{self, PrintOptions};
use crate::memory::FileBytes;
use crate::ops;

/// A program being written. Tensors are f32 on the CPU, dense, unless said otherwise.
pub(super) struct Program {
    dialect: &'static str,
    inputs: Vec<Value>,
    input_specs: Vec<Value>,
    nodes: Vec<Value>,
    outputs: Vec<Value>,
    output_specs: Vec<Value>,
    tensors: BTreeMap<String, Value>,
    sym_ints: BTreeMap<String, Value>,
    sym_bools: BTreeMap<String, Value>,
    sym_floats: BTreeMap<String, Value>,
    ranges: BTreeMap<String, Value>,
    weights: BTreeMap<String, Value>,
    files: BTreeMap<String, Vec<u8>>,
}

pub(super) fn int(n: i64) -> Value {
    json!({ "as_int": n })
}

pub(super) fn tensor(name: &str) -> Value {
    json!({ "as_tensor": { "name": name } })
}

fn symbol(name: &str) -> Value {
    json!({ "as_expr": { "expr_str": format!("Symbol('{name}', positive=True, integer=True)"), "hint": { "as_int": 3 } } })
}

fn expr(text: &str, hint: i64) -> Value {
    json!({ "as_expr": { "expr_str": text, "hint": { "as_int": hint } } })
}

fn sizes(dims: &[i64]) -> Vec<Value> {
    dims.iter().map(|dim| int(*dim)).collect()
}

fn dense(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

pub(super) fn meta(dtype: i64, sizes: Vec<Value>, strides: Vec<Value>, offset: i64) -> Value {
    json!({
        "dtype": dtype, "sizes": sizes, "requires_grad": false, "device": { "type": "cpu", "index": null },
        "strides": strides, "storage_offset": { "as_int": offset }, "layout": 7,
    })
}

impl Program {
    pub fn training() -> Self {
        Self::new("TRAINING")
    }

    pub fn core() -> Self {
        Self::new("ATEN")
    }

    fn new(dialect: &'static str) -> Self {
        Self {
            dialect,
            inputs: Vec::new(),
            input_specs: Vec::new(),
            nodes: Vec::new(),
            outputs: Vec::new(),
            output_specs: Vec::new(),
            tensors: BTreeMap::new(),
            sym_ints: BTreeMap::new(),
            sym_bools: BTreeMap::new(),
            sym_floats: BTreeMap::new(),
            ranges: BTreeMap::new(),
            weights: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }

    pub fn value(mut self, name: &str, dims: &[i64]) -> Self {
        let strides = sizes(&dense(dims));
        self.tensors.insert(name.to_owned(), meta(7, sizes(dims), strides, 0));
        self
    }

    fn typed(mut self, name: &str, dtype: i64, dims: &[i64]) -> Self {
        let strides = sizes(&dense(dims));
        self.tensors.insert(name.to_owned(), meta(dtype, sizes(dims), strides, 0));
        self
    }

    fn symbolic(mut self, name: &str, dims: Vec<Value>) -> Self {
        let strides = dims.iter().map(|_| int(1)).collect();
        self.tensors.insert(name.to_owned(), meta(7, dims, strides, 0));
        self
    }

    fn declared_input(mut self, name: &str) -> Self {
        self.inputs.push(tensor(name));
        self.input_specs.push(json!({ "user_input": { "arg": tensor(name) } }));
        self
    }

    pub fn input(self, name: &str, dims: &[i64]) -> Self {
        self.value(name, dims).declared_input(name)
    }

    /// A buffer `fqn` with its own file.
    pub fn buffer(self, name: &str, fqn: &str, dims: &[i64]) -> Self {
        let elements = dims.iter().product::<i64>();
        self.shared(name, fqn, &format!("weight_{fqn}"), elements, dims, &dense(dims), 0)
    }

    /// A buffer that looks at `file`, of so many elements, in this way.
    #[allow(clippy::too_many_arguments)]
    fn shared(
        mut self,
        name: &str,
        fqn: &str,
        file: &str,
        elements: i64,
        dims: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Self {
        let meta = meta(7, sizes(dims), sizes(strides), offset);
        self.tensors.insert(name.to_owned(), meta.clone());
        self.inputs.push(tensor(name));
        self.input_specs
            .push(json!({ "buffer": { "arg": { "name": name }, "buffer_name": fqn, "persistent": true } }));
        let payload =
            json!({ "path_name": file, "is_param": false, "use_pickle": false, "tensor_meta": meta });
        self.weights.insert(fqn.to_owned(), payload);
        self.files.insert(file.to_owned(), vec![0; elements as usize * 4]);
        self
    }

    /// A node with one tensor result of these dims.
    pub fn node(self, target: &str, args: &[(&str, Value)], result: &str, dims: &[i64]) -> Self {
        self.value(result, dims).call(target, args, vec![tensor(result)])
    }

    pub fn call(mut self, target: &str, args: &[(&str, Value)], outputs: Vec<Value>) -> Self {
        let inputs: Vec<Value> =
            args.iter().map(|(name, arg)| json!({ "name": name, "arg": arg, "kind": 1 })).collect();
        let name = outputs
            .first()
            .and_then(|output| output["as_tensor"]["name"].as_str())
            .unwrap_or("check")
            .to_owned();
        let metadata = json!({ "nn_module_stack": "L__self__,,M;L__self__a,a.b,N" });
        let target = if target.contains("torch.") || target.starts_with("_operator.") {
            target.to_owned()
        } else {
            format!("torch.ops.aten.{target}")
        };
        self.nodes.push(json!({
            "target": target, "inputs": inputs, "outputs": outputs, "metadata": metadata, "name": name,
        }));
        self
    }

    pub fn output(mut self, name: &str) -> Self {
        self.outputs.push(tensor(name));
        self.output_specs.push(json!({ "user_output": { "arg": tensor(name) } }));
        self
    }

    fn output_spec(mut self, name: &str, spec: Value) -> Self {
        self.outputs.push(tensor(name));
        self.output_specs.push(spec);
        self
    }

    pub fn json(&self) -> Value {
        json!({
            "graph_module": {
                "graph": {
                    "inputs": self.inputs, "outputs": self.outputs, "nodes": self.nodes,
                    "tensor_values": self.tensors, "sym_int_values": self.sym_ints,
                    "sym_bool_values": self.sym_bools, "sym_float_values": self.sym_floats,
                    "custom_obj_values": {}, "is_single_tensor_return": false,
                },
                "signature": { "input_specs": self.input_specs, "output_specs": self.output_specs },
                "module_call_graph": [], "metadata": {},
            },
            "opset_version": { "aten": 10 }, "range_constraints": self.ranges,
            "schema_version": { "major": 8, "minor": 20 }, "verifiers": [self.dialect],
            "torch_version": "2.13.0", "guards_code": [],
        })
    }

    pub fn archive(&self) -> Vec<u8> {
        let mut items: Vec<Item> = self
            .files
            .iter()
            .map(|(name, data)| Item::new(&format!("m/data/weights/{name}"), data.clone()))
            .collect();
        let config = json!({ "config": self.weights }).to_string();
        items.push(Item::new("m/data/weights/model_weights_config.json", config));
        items.push(Item::new("m/data/constants/model_constants_config.json", r#"{"config": {}}"#));
        items.push(Item::new("m/models/model.json", self.json().to_string()));
        items.push(Item::new("m/archive_format", "pt2"));
        items.push(Item::new("m/archive_version", "0"));
        items.push(Item::new("m/byteorder", "little"));
        write(&items)
    }

    fn imported(&self) -> Result<Imported, ModelError> {
        let pt2 = Pt2::from_bytes(FileBytes::from_vec(self.archive()))?;
        import(&pt2)
    }

    /// The trace's text from the first statement on, without indentation.
    fn body(&self) -> String {
        let imported = self.imported().unwrap_or_else(|error| panic!("{} {error}", error.code_text()));
        assert_eq!(crate::ir::verify::verify(&imported.module), vec![]);
        let printed = text::print(&imported.module, ops::schemas(), &PrintOptions::default());
        let parsed =
            text::parse(&printed, ops::schemas()).unwrap_or_else(|faults| panic!("{faults:?}\n{printed}"));
        assert_eq!(text::print(&parsed.module, ops::schemas(), &PrintOptions::default()), printed);
        let inside = printed.split_once(" {\n").expect("a body").1;
        inside.lines().map(str::trim).filter(|line| *line != "}").collect::<Vec<_>>().join("\n")
    }

    fn error(&self) -> ModelError {
        self.imported().expect_err("an error")
    }
}

#[track_caller]
fn check(program: &Program, expected: &str) {
    let expected =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(program.body(), expected);
}

#[test]
fn a_write_to_a_temporary_needs_no_copy() {
    let program = Program::training()
        .input("x", &[2, 3])
        .node("exp.default", &[("self", tensor("x"))], "exp", &[2, 3])
        .node("relu_.default", &[("self", tensor("exp"))], "relu_", &[2, 3])
        .node("add.Tensor", &[("self", tensor("exp")), ("other", tensor("relu_"))], "add", &[2, 3])
        .output("add");
    check(
        &program,
        r#"
        %exp: f32[2, 3] = torch.exp(%x)
        %relu_: f32[2, 3] = torch.relu(%exp)
        %add: f32[2, 3] = torch.add(%relu_, %relu_)
        return %add as "out0"
        "#,
    );
}

/// Views taken before a write see it; so does the base, through a chain of views.
#[test]
fn a_write_through_views_reaches_the_buffer_and_its_other_views() {
    let program = Program::training()
        .input("x", &[3])
        .buffer("b_state", "state", &[2, 3])
        .node("t.default", &[("self", tensor("b_state"))], "t", &[3, 2])
        .node("select.int", &[("self", tensor("t")), ("dim", int(1)), ("index", int(0))], "select", &[3])
        .node("add_.Tensor", &[("self", tensor("select")), ("other", tensor("x"))], "add_", &[3])
        .node("exp.default", &[("self", tensor("t"))], "exp", &[3, 2])
        .output("exp")
        .output("select");
    check(
        &program,
        r#"
        %t: f32[3, 2] = torch.t(%state)
        %select: f32[3] = torch.select(%t, axis=1, index=0)
        %add_: f32[3] = torch.add(%select, %x)
        %t0: f32[3, 2] = torch.select_scatter(%t, %add_, axis=1, index=0)
        %t1: f32[2, 3] = torch.t(%t0)
        %t2: f32[3, 2] = torch.t(%t1)
        %exp: f32[3, 2] = torch.exp(%t2)
        %state.1: f32[2, 3] = prims.copy_(%t1, %state)
        return %exp as "out0", %add_ as "out1"
        "#,
    );
}

/// A reshape of a transposed tensor copies in PyTorch, one of a dense tensor does not.
#[test]
fn recorded_strides_decide_whether_a_reshape_shares() {
    let shared = |strides: [i64; 2]| {
        let mut program = Program::training().buffer("b_state", "state", &[3, 2]).node(
            "relu_.default",
            &[("self", tensor("b_state"))],
            "relu_",
            &[3, 2],
        );
        program.tensors.insert("view".to_owned(), meta(7, sizes(&[2, 3]), sizes(&strides), 0));
        program
            .call("t.default", &[("self", tensor("b_state"))], vec![tensor("view")])
            .node(
                "reshape.default",
                &[("self", tensor("view")), ("shape", json!({ "as_ints": [6] }))],
                "flat",
                &[6],
            )
            .node("exp_.default", &[("self", tensor("flat"))], "exp_", &[6])
            .output("b_state")
    };
    let copied = shared([1, 2]).body();
    assert!(copied.contains("return %relu_ as"), "{copied}");
    // Strides as if `t` had given dense memory: then the write goes back through both views.
    let followed = shared([3, 1]).body();
    assert!(followed.contains("%state.1: f32[3, 2] = prims.copy_(%t"), "{followed}");
    assert!(!followed.contains("return %relu_ as"), "{followed}");
}

#[test]
fn pieces_are_written_where_they_were_cut() {
    let pieces = json!({ "as_tensors": [{ "name": "a" }, { "name": "b" }] });
    let program = Program::training()
        .buffer("b_state", "state", &[5])
        .value("a", &[3])
        .value("b", &[2])
        .call("split.Tensor", &[("self", tensor("b_state")), ("split_size", int(3))], vec![pieces])
        .node("exp_.default", &[("self", tensor("b"))], "exp_", &[2])
        .output("a");
    check(
        &program,
        r#"
        %a: f32[3], %b: f32[2] = torch.split(%state, sizes=3)
        %exp_: f32[2] = torch.exp(%b)
        %t0: f32[5] = torch.slice_scatter(%state, %exp_, start=3, end=5)
        %t1: f32[3], %t2: f32[2] = torch.split(%t0, sizes=3)
        %state.1: f32[5] = prims.copy_(%t0, %state)
        return %t1 as "out0"
        "#,
    );
}

/// `x.t_()`: both names mean the transposed tensor, and nothing is written.
#[test]
fn writes_of_metadata_write_nothing() {
    let program = Program::training()
        .buffer("b_state", "state", &[2, 3])
        .node("t_.default", &[("self", tensor("b_state"))], "t_", &[3, 2])
        .node("exp.default", &[("self", tensor("t_"))], "exp", &[3, 2])
        .output("exp");
    check(
        &program,
        r#"
        %t_: f32[3, 2] = torch.t(%state)
        %exp: f32[3, 2] = torch.exp(%t_)
        return %exp as "out0"
        "#,
    );
}

/// An integer tensor stays one when a float is added in place; PyTorch computes in the promoted dtype and casts.
#[test]
fn in_place_results_keep_their_dtype() {
    let program = Program::training()
        .typed("x", 6, &[2])
        .declared_input("x")
        .input("y", &[2])
        .typed("add_", 6, &[2])
        .call("add_.Tensor", &[("self", tensor("x")), ("other", tensor("y"))], vec![tensor("add_")])
        .output("add_");
    let body = program.body();
    assert!(body.contains("%add_: f16[2] = "), "{body}");
    assert!(body.contains("%x.1: f16[2] = prims.copy_(%add_, %x)"), "{body}");
}

/// Buffers that overlap: while they are only read they are parameters of their own, when one is written the tensor that
/// covers them all is the parameter and the others are views of it.
#[test]
fn overlapping_storages_are_one_base_where_they_are_written() {
    let program = |write: bool| {
        let program = Program::training()
            .shared("b_all", "all", "weight_0", 6, &[6], &[1], 0)
            .shared("b_part", "part", "weight_0", 6, &[2], &[1], 3)
            .shared("b_same", "same", "weight_0", 6, &[6], &[1], 0);
        let program = match write {
            true => program.node("exp_.default", &[("self", tensor("b_part"))], "exp_", &[2]),
            false => program.node("exp.default", &[("self", tensor("b_part"))], "exp_", &[2]),
        };
        program.output("b_all").output("b_same").output("exp_")
    };
    let read = program(false).imported().expect("imports");
    assert_eq!(read.module.traces[0].params.len(), 3);
    assert!(read.views.is_empty());
    let bytes = |fqn: &str| read.tensors[fqn].operand().bytes().clone();
    assert!(bytes("all").same(&bytes("part")));
    let written = program(true).imported().expect("imports");
    assert_eq!(written.module.traces[0].params.len(), 1);
    let views: Vec<(&str, &str)> = written.views.iter().map(|(view, base)| (&**view, &**base)).collect();
    assert_eq!(views, [("part", "all"), ("same", "all")]);
    let body = program(true).body();
    assert!(body.contains("%all.1: f32[6] = prims.copy_(%"), "{body}");
    let returned = body.lines().last().expect("a return");
    let names: Vec<&str> = returned.split(['%', ' ', ',']).filter(|word| word.starts_with('t')).collect();
    assert_eq!(names.len(), 2, "{returned}");
    assert_eq!(names[0], names[1], "both names of the base give its new value: {returned}");
}

#[test]
fn overlapping_storages_without_a_base_are_refused() {
    let program = Program::training()
        .shared("b_a", "a", "weight_0", 6, &[4], &[1], 0)
        .shared("b_b", "b", "weight_0", 6, &[4], &[1], 2)
        .node("exp_.default", &[("self", tensor("b_a"))], "exp_", &[4])
        .output("exp_");
    assert_eq!(program.error().code_text(), "model::storage_overlap");
}

/// In core programs the signature says what is written; two buffers may change places.
#[test]
fn a_swap_of_buffers_reads_both_before_it_writes() {
    let spec =
        |name: &str, fqn: &str| json!({ "buffer_mutation": { "arg": { "name": name }, "buffer_name": fqn } });
    let program = Program::core()
        .buffer("b_a", "a", &[2])
        .buffer("b_b", "b", &[2])
        .node("exp.default", &[("self", tensor("b_a"))], "exp", &[2])
        .output_spec("b_b", spec("b_b", "a"))
        .output_spec("b_a", spec("b_a", "b"))
        .output("exp");
    check(
        &program,
        r#"
        %exp: f32[2] = torch.exp(%a)
        %a.1: f32[2] = prims.copy_(%b, %a)
        %b.1: f32[2] = prims.copy_(%a, %b)
        return %exp as "out0"
        "#,
    );
}

#[test]
fn regions_without_gradient_are_inlined_and_detached() {
    let region = json!({ "as_graph": { "name": "g", "graph": {
        "inputs": [tensor("a")], "outputs": [tensor("x")],
        "nodes": [{
            "target": "torch.ops.aten.exp.default", "inputs": [{ "name": "self", "arg": tensor("a"), "kind": 1 }],
            "outputs": [tensor("x")], "metadata": {}, "name": "x",
        }],
        "tensor_values": { "x": meta(7, sizes(&[2]), sizes(&[1]), 0), "a": meta(7, sizes(&[2]), sizes(&[1]), 0) },
        "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": true,
    } } });
    let program = Program::training()
        .input("x", &[2])
        .node(
            "torch.ops.higher_order.wrap_with_set_grad_enabled",
            &[("", json!({ "as_bool": false })), ("", region), ("", tensor("x"))],
            "getitem",
            &[2],
        )
        .node("add.Tensor", &[("self", tensor("getitem")), ("other", tensor("x"))], "add", &[2])
        .output("add");
    // The region's own `x` gets another name: the outer one is taken.
    check(
        &program,
        r#"
        %x_1: f32[2] = torch.exp(%x)
        %getitem: f32[2] = torch.detach(%x_1)
        %add: f32[2] = torch.add(%getitem, %x)
        return %add as "out0"
        "#,
    );
}

/// PyTorch bakes floats in when it exports; the format can leave one open, and what is computed of it.
#[test]
fn an_open_float_is_an_input() {
    let named = |name: &str| json!({ "as_sym_float": { "as_name": name } });
    let float = |text: &str| json!({ "as_expr": { "expr_str": text, "hint": { "as_float": 0.5 } } });
    let mut program = Program::training()
        .input("x", &[2])
        .call("_operator.mul", &[("a", named("f")), ("b", json!({ "as_float": 2.0 }))], vec![named("twice")])
        .call("math.cos", &[("a", named("twice"))], vec![named("cos")])
        .node("mul.Tensor", &[("self", tensor("x")), ("other", named("f"))], "mul", &[2])
        .node("add.Tensor", &[("self", tensor("mul")), ("other", named("cos"))], "add", &[2])
        .output("add");
    program.inputs.push(named("f"));
    program.input_specs.push(json!({ "user_input": { "arg": named("f") } }));
    let twice = "Mul(Float('2.0', precision=53), Symbol('zuf0'))";
    program.sym_floats.insert("f".to_owned(), float("Symbol('zuf0')"));
    program.sym_floats.insert("twice".to_owned(), float(twice));
    program.sym_floats.insert("cos".to_owned(), float(&format!("OpaqueUnaryFn_cos({twice})")));
    check(
        &program,
        "%mul: f32[2] = torch.mul(%x, %f)
        %t0: float = num.mul(2.0, %f)
        %t1: float = num.float(%t0)
        %t2: f64[] = prims.full(dims=[], value=%t1, dtype=f64, device=cpu)
        %t3: f64[] = prims.cos(%t2)
        %t4: float = prims.item(%t3)
        %add: f32[2] = torch.add(%mul, %t4)
        return %add as \"out0\"",
    );
}

#[test]
fn symbolic_sizes_are_folded() {
    let s0 = || symbol("s0");
    let mut program = Program::training().symbolic("x", vec![s0(), int(4)]).declared_input("x");
    program.ranges.insert("s0".to_owned(), json!({ "min_val": 2, "max_val": 8 }));
    program.sym_ints.insert("sym_size".to_owned(), s0());
    program
        .sym_ints
        .insert("mul".to_owned(), expr("Mul(Integer(4), Symbol('s0', positive=True, integer=True))", 12));
    program.sym_bools.insert(
        "le".to_owned(),
        json!({ "as_expr": {
        "expr_str": "LessThan(Symbol('s0', positive=True, integer=True), Integer(8))", "hint": null } }),
    );
    let named = |name: &str| json!({ "as_sym_int": { "as_name": name } });
    let program = program
        .call("sym_size.int", &[("self", tensor("x")), ("dim", int(0))], vec![named("sym_size")])
        .call("_operator.mul", &[("a", named("sym_size")), ("b", int(4))], vec![named("mul")])
        .call(
            "_operator.le",
            &[("a", named("sym_size")), ("b", int(8))],
            vec![json!({ "as_sym_bool": { "as_name": "le" } })],
        )
        .call(
            "_assert_scalar.default",
            &[
                ("self", json!({ "as_sym_bool": { "as_name": "le" } })),
                ("assert_msg", json!({ "as_string": "s0 <= 8" })),
            ],
            vec![],
        )
        .symbolic("view", vec![expr("Mul(Integer(4), Symbol('s0', positive=True, integer=True))", 12)])
        .call(
            "view.default",
            &[("self", tensor("x")), ("size", json!({ "as_sym_ints": [{ "as_name": "mul" }] }))],
            vec![tensor("view")],
        )
        .symbolic("add", vec![expr("Mul(Integer(4), Symbol('s0', positive=True, integer=True))", 12)])
        .call("add.Tensor", &[("self", tensor("view")), ("other", named("sym_size"))], vec![tensor("add")])
        .output("add");
    check(
        &program,
        r#"
        %view: f32[4*s0] = torch.reshape(%x, dims=[4*s0])
        %add: f32[4*s0] = torch.add(%view, s0)
        return %add as "out0"
        "#,
    );
    let dims = program.imported().expect("imports").module.dims;
    assert_eq!((dims[0].low, dims[0].high), (0, Some(8)), "2 only says that export specialises 0 and 1");
}

/// What a dim cannot say is computed by `num.*` ops and stands for a symbol of its own.
#[test]
fn unsayable_sizes_become_symbols() {
    let half =
        "TruncToInt(FloatTrueDiv(Symbol('s0', positive=True, integer=True), Float('1.5', precision=53)))";
    let program = Program::training()
        .symbolic("x", vec![symbol("s0")])
        .declared_input("x")
        .symbolic("y", vec![expr(half, 2)])
        .call("_add_relu.Tensor", &[("self", tensor("x")), ("other", tensor("x"))], vec![tensor("y")])
        .output("y");
    check(
        &program,
        r#"
        %t0: float = num.truediv(s0, 1.5)
        %t1: int(u0) = num.int(%t0)
        %y: f32[u0] = aten._add_relu.Tensor(%x, %x)
        return %y as "out0"
        "#,
    );
}

/// An assertion on data stays, as a check; one on sizes that no size satisfies is an error.
#[test]
fn assertions_are_proved_kept_or_refuted() {
    let program = |condition: &str| {
        let mut program = Program::training().typed("n", 5, &[]).declared_input("n");
        program.sym_ints.insert(
            "item".to_owned(),
            json!({ "as_expr": { "expr_str": "Symbol('u0', integer=True)", "hint": null } }),
        );
        program
            .sym_bools
            .insert("ge".to_owned(), json!({ "as_expr": { "expr_str": condition, "hint": null } }));
        program
            .call(
                "item.default",
                &[("self", tensor("n"))],
                vec![json!({ "as_sym_int": { "as_name": "item" } })],
            )
            .call(
                "_operator.ge",
                &[("a", json!({ "as_sym_int": { "as_name": "item" } })), ("b", int(1))],
                vec![json!({ "as_sym_bool": { "as_name": "ge" } })],
            )
            .call(
                "_assert_scalar.default",
                &[
                    ("self", json!({ "as_sym_bool": { "as_name": "ge" } })),
                    ("assert_msg", json!({ "as_string": "too small" })),
                ],
                vec![],
            )
            .output("n")
    };
    check(
        &program("GreaterThan(Symbol('u0', integer=True), Integer(1))"),
        r#"
        %item: int(u0) = torch.item(%n)
        %t0: boolean = num.ge(%item, 1)
        prims.check(%t0, message="too small")
        return %n as "out0"
        "#,
    );
    let error = program("StrictLessThan(Integer(2), Integer(1))").error();
    assert_eq!(error.code_text(), "model::assertion");
    assert!(error.to_string().contains("too small") && error.to_string().contains("`a.b`"), "{error}");
}

/// ATen ops that the table does not know keep their names, with complete arguments; what they write comes back behind.
#[test]
fn unknown_operators_are_opaque() {
    let program = Program::training()
        .buffer("b_state", "state", &[3])
        .input("x", &[3])
        .node("_add_relu_.Tensor", &[("self", tensor("b_state")), ("other", tensor("x"))], "written", &[3])
        .node("torch.ops.acme.rope.default", &[("q", tensor("written")), ("base", int(7))], "rope", &[3])
        .output("rope");
    check(
        &program,
        r#"
        %written: f32[3] = aten._add_relu_.Tensor(%state, %x)
        %rope: f32[3] = acme.rope.default(%written, base=7)
        %state.1: f32[3] = prims.copy_(%written, %state)
        return %rope as "out0"
        "#,
    );
    let trace = &program.imported().expect("imports").module.traces[0];
    assert_eq!(trace.ops().next().expect("a call").args.len(), 3, "self, other and alpha");
}

#[test]
fn constants_among_inputs_and_outputs() {
    let mut program = Program::training().input("x", &[2]);
    program.inputs.push(json!({ "as_bool": true }));
    program.input_specs.push(json!({ "constant_input": { "name": "flag", "value": { "as_bool": true } } }));
    program.outputs.push(json!({ "as_none": true }));
    program.output_specs.push(json!({ "user_output": { "arg": { "as_none": true } } }));
    let program = program.input("y", &[2]).output("y");
    let imported = program.imported().expect("imports");
    assert_eq!(imported.inputs[1].kind, InputKind::Constant(Arg::Bool(true)));
    let roles: Vec<&str> =
        imported.module.traces[0].params.iter().filter_map(|param| param.role.name.as_deref()).collect();
    assert_eq!(roles, ["in0", "in2"]);
    assert!(program.body().ends_with(r#"return none as "out0", %y as "out1""#));
}

/// Writes through ever longer chains of views cost the square of the file's size: refused before it hurts.
#[test]
fn endless_chains_of_views_are_refused() {
    let mut program = Program::training().buffer("v0", "state", &[2]);
    for i in 0..250 {
        let (from, to) = (format!("v{i}"), format!("v{}", i + 1));
        let args = [("self", tensor(&from)), ("size", json!({ "as_ints": [2] }))];
        program = program.node("view.default", &args, &to, &[2]);
    }
    for i in 0..250 {
        program = program.node("exp_.default", &[("self", tensor("v250"))], &format!("e{i}"), &[2]);
    }
    assert_eq!(program.output("v250").error().code_text(), "model::too_large");
}

/// A buffer called like an input keeps a name of its own, for the trace and for files that hold both.
#[test]
fn names_that_look_like_inputs_are_marked() {
    let program = Program::training()
        .buffer("b_in0", "in0", &[2])
        .input("x", &[2])
        .node("exp_.default", &[("self", tensor("b_in0"))], "exp_", &[2])
        .output("exp_");
    let imported = program.imported().expect("imports");
    assert_eq!(crate::ir::verify::verify(&imported.module), vec![]);
    assert!(imported.tensors.contains_key("fqn:in0"));
    let role = &imported.module.traces[0].params[0].role;
    assert_eq!(role.name.as_deref(), Some("fqn:in0"));
}

/// Each fault with its code, and messages that name the node.
#[test]
fn faults_have_codes() {
    let exp = |name: &str, from: &str, dims: &[i64]| {
        Program::training()
            .input("x", &[2])
            .node("exp.default", &[("self", tensor(from))], name, dims)
            .output(name)
    };
    let mut twice = exp("y", "x", &[2]);
    twice.nodes.push(twice.nodes[0].clone());
    let mut untyped = exp("y", "x", &[2]);
    untyped.tensors.remove("y");
    let mut fewer = exp("y", "x", &[2]);
    fewer.input_specs.clear();
    let mut dialect = exp("y", "x", &[2]);
    dialect.dialect = "EDGE";
    let mut dtype = exp("y", "x", &[2]);
    dtype.tensors.insert("y".to_owned(), meta(9, sizes(&[2]), sizes(&[1]), 0));
    let cases = vec![
        (exp("y", "nobody", &[2]), "model::value_undefined"),
        (exp("y", "y", &[2]), "model::value_undefined"),
        (twice, "model::value_redefined"),
        (untyped, "model::value_type"),
        (dtype, "model::value_type"),
        (exp("y", "x", &[-2]), "model::value_type"),
        (exp("y", "x", &[1; 100]), "model::value_type"),
        (exp("y", "x", &[3]), "model::call"),
        (exp("y", "x", &[2, 1]), "model::call"),
        (fewer, "model::signature"),
        (dialect, "model::dialect"),
        (
            Program::training().input("x", &[2]).node("frobnicate.default", &[], "y", &[2]).output("y"),
            "model::operator_unknown",
        ),
        (
            Program::training().input("x", &[2]).node("torch.nonsense", &[], "y", &[2]).output("y"),
            "model::operator_unknown",
        ),
        (
            Program::training().input("x", &[2]).node("exp.default", &[], "y", &[2]).output("y"),
            "model::argument",
        ),
        (
            Program::training()
                .input("x", &[2])
                .node("exp.default", &[("self", tensor("x")), ("zelf", tensor("x"))], "y", &[2])
                .output("y"),
            "model::argument",
        ),
        (
            Program::training()
                .input("x", &[2])
                .node("exp.default", &[("self", json!({ "as_hologram": 1 }))], "y", &[2])
                .output("y"),
            "model::argument",
        ),
        (
            Program::training()
                .input("x", &[2])
                .node("torch.ops.higher_order.flex_attention", &[], "y", &[2])
                .output("y"),
            "model::higher_order",
        ),
        (
            Program::training()
                .input("x", &[1, 2])
                .node(
                    "expand.default",
                    &[("self", tensor("x")), ("size", json!({ "as_ints": [3, 2] }))],
                    "e",
                    &[3, 2],
                )
                .node("exp_.default", &[("self", tensor("e"))], "y", &[3, 2])
                .output("y"),
            "model::mutation",
        ),
        (
            Program::training()
                .input("x", &[2])
                .call("unbind.int", &[("self", tensor("x"))], vec![json!({ "as_tensors": [] })])
                .output("x"),
            "model::call",
        ),
    ];
    let mut wrong = Vec::new();
    for (i, (program, expected)) in cases.iter().enumerate() {
        match program.imported() {
            Ok(_) => wrong.push(format!("{i}: imported, expected {expected}")),
            Err(error) if error.code_text() == *expected => {}
            Err(error) => wrong.push(format!("{i}: {} ({error}), expected {expected}", error.code_text())),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
