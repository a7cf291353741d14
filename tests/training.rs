//! Training: twenty steps as PyTorch makes them, pauses that change nothing, ties, and what is refused.
//!
//! The fixtures are PyTorch's own steps (`fixtures/make_training.py`). The tolerance is on the largest difference of a
//! tensor against the larger of its largest element and a thousandth: twenty steps amplify the last bits of each.
//!
//! `pytorch` follows, too, where `THUNDERHEAD_DIST` names a tree that has the plugin.

#[path = "support/exported.rs"]
mod exported;

use std::collections::BTreeMap;
use std::path::PathBuf;

use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::Dtype;
use thunderhead::tensor_files::{read_tensors, write_tensors};
use thunderhead::{
    AdamNumbers, Error, Host, HostOptions, Loss, Optimizer, Program, Rule, Tensor, TrainError, TrainOptions,
    Trainer, Value,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn host() -> Host {
    let text = "config = 1\nexecutors = [\"reference\"]\n".to_owned();
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).expect("reference is linked in")
}

fn model(name: &str) -> Program {
    Program::open(format!("{ROOT}/tests/models/{name}/model.pt2")).expect("a model of the fixtures")
}

fn fixture(name: &str, file: &str) -> PathBuf {
    format!("{ROOT}/tests/fixtures/training/{name}/{file}").into()
}

fn adamw() -> TrainOptions {
    let numbers = AdamNumbers { beta1: 0.9, beta2: 0.95, eps: 1e-8, amsgrad: false };
    TrainOptions {
        loss: Loss::CrossEntropy,
        optimizer: Optimizer { rule: Rule::AdamW(numbers), lr: 1e-2, weight_decay: 0.1, maximize: false },
        no_decay: vec![glob("*norm*"), glob("*ln_f*")],
        seed: 0,
    }
}

fn sgd() -> TrainOptions {
    let rule = Rule::Sgd { momentum: 0.9, dampening: 0.1, nesterov: false };
    TrainOptions {
        loss: Loss::Mse,
        optimizer: Optimizer { rule, lr: 0.05, weight_decay: 1e-3, maximize: false },
        no_decay: Vec::new(),
        seed: 0,
    }
}

fn glob(text: &str) -> thunderhead::Glob {
    thunderhead::Glob::new(text)
}

/// The batches of a fixture, ready for a step.
fn batches(name: &str, trainer: &Trainer) -> Vec<Vec<Value>> {
    let all = read_tensors(&fixture(name, "data.safetensors")).expect("a fixture");
    let batch = |at: usize| {
        let prefix = format!("{at}.");
        let named = all.iter().filter_map(|(n, t)| Some((n.strip_prefix(&prefix)?, t.clone())));
        let given: BTreeMap<String, Value> = named.map(|(n, t)| (n.to_owned(), Value::Tensor(t))).collect();
        trainer.arrange(given).expect("the batch fits")
    };
    (0..4).map(batch).collect()
}

fn steps(trainer: &mut Trainer, batches: &[Vec<Value>], upto: u64) -> Vec<f64> {
    let mut losses = Vec::new();
    while trainer.n_steps() < upto {
        let batch = &batches[trainer.n_steps() as usize % batches.len()];
        losses.push(trainer.step(batch).expect("a step"));
    }
    losses
}

#[track_caller]
fn follows_pytorch(name: &str, options: &TrainOptions) {
    follows_pytorch_on(&host(), name, options);
    let Some(dist) = exported::dist() else { return };
    follows_pytorch_on(&exported::host("pytorch", Some(&dist), 1), name, options);
}

#[track_caller]
fn follows_pytorch_on(host: &Host, name: &str, options: &TrainOptions) {
    let mut trainer = host.trainer(&model(name), options).expect("it can be trained");
    let batches = batches(name, &trainer);
    let losses = steps(&mut trainer, &batches, 20);
    let text = std::fs::read_to_string(fixture(name, "losses.json")).expect("a fixture");
    let expected: Vec<f64> = serde_json::from_str(&text).expect("numbers");
    assert_eq!(losses.len(), expected.len());
    for (step, (found, wanted)) in losses.iter().zip(&expected).enumerate() {
        assert!((found - wanted).abs() <= 1e-4 * wanted.abs(), "step {step}: loss {found}, PyTorch {wanted}");
    }
    let weights: BTreeMap<String, Tensor> = trainer.weights().expect("weights").into_iter().collect();
    let expected = read_tensors(&fixture(name, "weights.safetensors")).expect("a fixture");
    assert!(expected.len() >= 10);
    for (name, wanted) in &expected {
        let found = weights.get(name).unwrap_or_else(|| panic!("no `{name}`"));
        assert_eq!((found.dims(), found.dtype()), (wanted.dims(), wanted.dtype()), "{name}");
        let (found, wanted) = (floats(found), floats(wanted));
        let scale = wanted.iter().map(|x| x.abs()).fold(1e-3, f64::max);
        let difference = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(difference <= 1e-3 * scale, "`{name}` differs by {difference:.2e}, its scale is {scale:.2e}");
    }
}

fn floats(t: &Tensor) -> Vec<f64> {
    match t.dtype() {
        Dtype::I64 => t.to_vec::<i64>().expect("i64").into_iter().map(|n| n as f64).collect(),
        _ => t.to_vec::<f32>().expect("f32").into_iter().map(f64::from).collect(),
    }
}

#[test]
fn a_language_model_with_adamw_follows_pytorch() {
    follows_pytorch("lit_llama2", &adamw());
}

#[test]
fn a_net_with_batch_norm_and_momentum_follows_pytorch() {
    follows_pytorch("bn_train", &sgd());
}

#[test]
fn a_pause_changes_no_bit() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("checkpoint.safetensors");
    for (name, options) in [("lit_llama2", adamw()), ("bn_train", sgd())] {
        let program = model(name);
        let mut whole = host().trainer(&program, &options).expect("it can be trained");
        let batches = batches(name, &whole);
        let losses = steps(&mut whole, &batches, 20);

        let mut first = host().trainer(&program, &options).expect("it can be trained");
        steps(&mut first, &batches, 10);
        write_tensors(&file, &first.checkpoint().expect("a checkpoint")).expect("written");
        let mut second = host().trainer(&program, &options).expect("it can be trained");
        second.restore(&read_tensors(&file).expect("read")).expect("it is the same model");
        assert_eq!(second.n_steps(), 10);
        assert_eq!(steps(&mut second, &batches, 20), losses[10..]);

        let bytes = |trainer: &Trainer| -> Vec<(String, Vec<u8>)> {
            let all = trainer.checkpoint().expect("a checkpoint");
            all.into_iter().map(|(n, t)| (n, t.to_bytes().expect("bytes"))).collect()
        };
        assert_eq!(bytes(&whole), bytes(&second), "{name}");
    }
}

#[test]
fn a_checkpoint_of_something_else_is_refused_and_changes_nothing() {
    let mut llama = host().trainer(&model("lit_llama2"), &adamw()).expect("it can be trained");
    let other = host().trainer(&model("bn_train"), &sgd()).expect("it can be trained");
    let before = llama.weights().expect("weights");
    let checkpoint = other.checkpoint().expect("a checkpoint").into_iter().collect();
    assert!(matches!(llama.restore(&checkpoint), Err(Error::State(_))));
    assert!(matches!(llama.restore(&BTreeMap::new()), Err(Error::Train(TrainError::Checkpoint(_)))));
    // The right model, and the state of another optimiser.
    let plain = host().trainer(&model("lit_llama2"), &TrainOptions { loss: Loss::CrossEntropy, ..sgd() });
    let checkpoint = plain.expect("trained").checkpoint().expect("a checkpoint").into_iter().collect();
    assert!(matches!(llama.restore(&checkpoint), Err(Error::State(_))));
    for ((name, old), (_, new)) in before.iter().zip(llama.weights().expect("weights")) {
        assert_eq!(old.to_bytes().expect("bytes"), new.to_bytes().expect("bytes"), "{name}");
    }
}

const TIED: &str = "\
thunderhead trace 1.0

trace forward(
    %w: f32[2] param \"a.w\",
    %v: f32[2] param \"b.w\",
    %still: f32[2] param \"still\" frozen,
    %x: f32[2] input \"in0\",
) stage acquired {
    %p: f32[2] = torch.mul(%w, %x)
    %q: f32[2] = torch.mul(%p, %v)
    %r: f32[2] = torch.mul(%q, %still)
    %d: f32[2] = torch.dropout(%r, p=0.5, train=false, seed=0, offset=0)
    %y: f32[] = torch.sum(%d)
    return %y as \"out0\"
}
";

#[test]
fn frozen_parameters_stay_and_evaluation_is_said() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let weights = dir.path().join("w.safetensors");
    let tensor = |data: [f32; 2]| Tensor::from_slice(&data, &[2]).expect("two elements");
    let named = [("a.w", [1.0, 2.0]), ("b.w", [3.0, 4.0]), ("still", [1.0, 0.5])];
    let named: Vec<_> = named.into_iter().map(|(n, d)| (n.to_owned(), tensor(d))).collect();
    write_tensors(&weights, &named).expect("written");
    let program = Program::from_trace_text("t.trace", TIED).expect("a good trace");
    let program = program.with_weights(&weights).expect("weights");
    let rule = Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false };
    let optimizer = Optimizer { rule, lr: 0.1, weight_decay: 0.0, maximize: false };
    let options = TrainOptions { loss: Loss::Output, optimizer, no_decay: Vec::new(), seed: 0 };
    let mut trainer = host().trainer(&program, &options).expect("it can be trained");
    assert_eq!(trainer.trained(), ["a.w", "b.w"]);
    assert_eq!(trainer.evaluated(), ["torch.dropout"]);
    let given = [("in0".to_owned(), Value::Tensor(tensor([1.0, 1.0])))].into_iter().collect();
    let inputs = trainer.arrange(given).expect("it fits");
    let loss = trainer.step(&inputs).expect("a step");
    assert_eq!(loss, 1.0 * 3.0 + 2.0 * 4.0 * 0.5);
    let found: BTreeMap<String, Tensor> = trainer.weights().expect("weights").into_iter().collect();
    let of = |name: &str| found[name].to_vec::<f32>().expect("f32");
    assert_eq!(of("a.w"), [1.0 - 0.1 * 3.0, 2.0 - 0.1 * 4.0 * 0.5]);
    assert_eq!(of("b.w"), [3.0 - 0.1 * 1.0, 4.0 - 0.1 * 2.0 * 0.5]);
    assert_eq!(of("still"), [1.0, 0.5]);
    // The program's own weights are as they were.
    assert_eq!(program.weights()["a.w"].to_vec::<f32>().expect("f32"), [1.0, 2.0]);
}

#[test]
fn tied_parameters_are_one() {
    let program = model("hf_gpt2");
    let tensors = program.weights();
    let tied: Vec<(&str, &str)> = tensors
        .iter()
        .flat_map(|(a, x)| tensors.iter().map(move |(b, y)| ((&**a, x), (&**b, y))))
        .filter(|((a, x), (b, y))| a < b && x.operand().addr() == y.operand().addr() && x.dims() == y.dims())
        .map(|((a, _), (b, _))| (a, b))
        .collect();
    assert!(!tied.is_empty(), "gpt2 has a tied embedding");
    let options = TrainOptions { no_decay: Vec::new(), ..adamw() };
    let mut trainer = host().trainer(&program, &options).expect("it can be trained");
    for (a, b) in &tied {
        let names = trainer.trained();
        assert!(names.contains(a) != names.contains(b), "one of {a} and {b} stands for both");
    }
    let inputs = read_tensors(format!("{ROOT}/tests/models/hf_gpt2/inputs.safetensors").as_ref());
    let mut given: BTreeMap<String, Value> =
        inputs.expect("a fixture").into_iter().map(|(n, t)| (n, Value::Tensor(t))).collect();
    let dims = given["in0"].tensor().expect("tokens").dims().to_vec();
    given.insert("target".into(), Value::Tensor(Tensor::zeros(Dtype::I64, &dims).expect("small")));
    let inputs = trainer.arrange(given).expect("it fits");
    let before = trainer.step(&inputs).expect("a step");
    let after = trainer.step(&inputs).expect("a step");
    assert!(after < before, "{after} is not below {before}");
    let weights: BTreeMap<String, Tensor> = trainer.weights().expect("weights").into_iter().collect();
    for (a, b) in tied {
        assert_eq!(weights[a].to_bytes().expect("bytes"), weights[b].to_bytes().expect("bytes"));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |name: &str, options: &TrainOptions| match host().trainer(&model(name), options) {
        Err(Error::Train(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{name} was taken"),
    };
    let output = TrainOptions { loss: Loss::Output, ..sgd() };
    assert!(matches!(refused("bn_train", &output), TrainError::Loss(_)));
    let mut negative = sgd();
    negative.optimizer.lr = -1.0;
    assert!(matches!(refused("bn_train", &negative), TrainError::Optimizer(_)));
}
