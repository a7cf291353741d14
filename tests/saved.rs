//! What is saved for the backward: of no op more bytes than PyTorch's autograd saves, with and without rematerialisation.
//!
//! The programs are one op each; how much PyTorch saves was counted when they were made (`fixtures/make_saved.py`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use thunderhead::autodiff::Differentiated;
use thunderhead::ir::text::{PrintOptions, parse, print};
use thunderhead::ir::{Module, Trace, Type, ValueId};
use thunderhead::run::GradRequest;
use thunderhead::{Host, Program, Tensor, Value};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/saved");

/// Bytes saved by rule, before the min-cut, beyond those of PyTorch: op, how many, why.
const BEFORE_THE_CUT: &[(&str, u64, &str)] = &[(
    "cross_entropy",
    160,
    "what its parts make of the classes: a mask, as bool and as f32; the cut makes it again",
)];

#[test]
fn no_op_saves_more_than_in_pytorch() {
    let text = std::fs::read_to_string(format!("{MODELS}/bytes.json")).expect("a fixture");
    let theirs: BTreeMap<String, u64> = serde_json::from_str(&text).expect("numbers by name");
    assert!(theirs.len() >= 17);
    let host = Host::reference().expect("the built-in executor loads");
    let mut wrong = Vec::new();
    for (name, theirs) in &theirs {
        for remat in [true, false] {
            let traces = differentiated(&host, name, remat);
            let ours = bytes(&traces.forward);
            let more = BEFORE_THE_CUT.iter().find(|(op, ..)| op == name && !remat).map_or(0, |(_, n, _)| *n);
            if ours > theirs + more || (more > 0 && ours != theirs + more) {
                wrong.push(format!("{name} (remat {remat}): {ours} bytes, PyTorch saves {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Both traces of each print, and read back as they were, names of saved values included.
#[test]
fn traces_that_save_parts_of_composites_read_back() {
    let host = Host::reference().expect("the built-in executor loads");
    let mut n_checked = 0;
    for entry in std::fs::read_dir(MODELS).expect("a folder").flatten() {
        let file = entry.path();
        let Some(name) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".pt2")) else {
            continue;
        };
        for remat in [true, false] {
            let traces = differentiated(&host, name, remat);
            let module = Module { dims: Vec::new(), traces: vec![traces.forward, traces.backward] };
            let schemas = thunderhead::ops::schemas();
            let printed = print(&module, schemas, &PrintOptions::default());
            let again =
                parse(&printed, schemas).unwrap_or_else(|faults| panic!("{name}: {faults}\n{printed}"));
            assert_eq!(print(&again.module, schemas, &PrintOptions::default()), printed);
            let faults = thunderhead::ops::check::faults(&again.module);
            assert!(faults.is_empty(), "{name}: {}\n{printed}", faults[0]);
            n_checked += 1;
        }
    }
    assert!(n_checked >= 34);
}

/// With gradients of all parameters and floating inputs.
fn differentiated(host: &Host, name: &str, remat: bool) -> Differentiated {
    let file = PathBuf::from(MODELS).join(format!("{name}.pt2"));
    let program = Program::open(&file).expect("a program");
    let session = host.compile(&program).expect("it compiles");
    let inputs: Vec<Value> =
        program.arrange(BTreeMap::new(), &mut |_, ty| zeros(ty)).expect("all inputs are tensors");
    let wrt = program.names_wrt(&["*".to_owned()]).expect("a pattern");
    let request = GradRequest { wrt: Some(wrt), remat };
    session.differentiated(&inputs, &request).expect("it has a gradient").traces.clone()
}

/// Of everything saved, parameters and inputs included, as PyTorch's were counted.
fn bytes(forward: &Trace) -> u64 {
    let bytes_of = |v: &ValueId| match forward.ty(*v) {
        Type::Tensor(t) => {
            let dims: Option<Vec<i64>> = t.dims.iter().map(|d| d.known()).collect();
            dims.expect("all sizes are known").iter().product::<i64>() as u64 * t.dtype.size_bytes() as u64
        }
        Type::Number(_) => 8,
    };
    forward.save.iter().map(bytes_of).sum()
}

fn zeros(ty: &Type) -> Option<Value> {
    let t = ty.tensor()?;
    let dims: Option<Vec<i64>> = t.dims.iter().map(|d| d.known()).collect();
    Some(Value::Tensor(Tensor::zeros(t.dtype, &dims?).ok()?))
}
