//! `thunderhead grad`: gradients of the sum of outputs times cotangents; printed, written, compared.

use rustc_hash::FxHashMap;
use thunderhead::frontend::pt2::graph::Dialect;
use thunderhead::ir::{Dtype, RoleKind, Trace};
use thunderhead::plan::PlanFile;
use thunderhead::run::{Compiled, Differentiated};
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Error, Program, Tensor, Value};

use super::args::GradArgs;
use super::failure::Failure;
use super::outputs::{Compared, Outputs, check_folders};
use super::program::Opened;
use super::render::Screen;
use super::render::progress::timed;

pub fn run(args: &GradArgs, screen: &Screen) -> Result<(), Failure> {
    check_folders([args.output.as_ref()])?;
    let opened = Opened::new(&args.model, &args.inputs, screen)?;
    if opened.program.dialect() == Some(Dialect::Aten) {
        screen.say(
            "the model is in core ATen: its gradients are those of the graph as written, whatever rules of their own \
             the composites had that PyTorch took apart",
        );
    }
    let request = opened.request(&args.wanted)?;
    let given = match &args.cotangents {
        Some(path) => Some(opened.program.arrange_cotangents(read_tensors(path)?)?),
        None => None,
    };
    let ((program, cotangents), compile) = timed("compiling", screen, || {
        let program = opened.session.differentiated(&opened.inputs, &request)?;
        let cotangents = given.map_or_else(|| one(&opened.program, &program), Ok)?;
        Ok((program, cotangents))
    })?;
    let (mut gradients, run) = timed("running", screen, || {
        let (_, _, tape) = opened.session.forward(&opened.inputs, &request)?;
        Ok(tape.backward(&cotangents).map_err(Error::from)?)
    })?;

    // In the model's order, not the alphabet's.
    let names = program.traces.backward.outputs.iter().filter_map(|output| output.name.as_deref());
    let named = names.filter_map(|name| Some((name.to_owned(), Value::Tensor(gradients.remove(name)?))));
    let outputs = Outputs { what: "gradient", named: named.collect() };
    if let Some(path) = &args.output {
        outputs.write(path, screen)?;
    }
    let compared: Vec<Compared> = match &args.expect {
        Some(path) => outputs.compare_gradients(path, args.rtol, !args.wanted.wrt.is_empty(), screen)?,
        None => Vec::new(),
    };
    let compiled = [Some(program.compiled_forward()), program.compiled_backward()];
    let plan = |compiled: &Compiled| {
        PlanFile::of(&compiled.lowered, &compiled.regions, &compiled.first, compiled.segments.len())
    };
    let plans: Vec<PlanFile> = compiled.into_iter().flatten().map(|compiled| plan(compiled)).collect();
    let mut summary = opened.summary_of(&plans, compile, run);
    summary.saved_bytes = program.traces.saved_bytes;
    outputs.report(args.json, args.expect.as_deref(), &compared, &summary, screen)
}

/// 1 as the cotangent of the only floating output, if that has one element. Any other sum would be a guess.
fn one(program: &Program, differentiated: &Differentiated) -> Result<FxHashMap<usize, Tensor>, Failure> {
    let outputs = program.floating_outputs();
    let unclear = |found: String| {
        let message =
            format!("without cotangents the program must have one floating output of one element; {found}");
        let all: Vec<String> = outputs.iter().map(|(_, name)| format!("`{name}`")).collect();
        let advice = format!("give --cotangents FILE, safetensors with {}", all.join(", "));
        Failure::Usage { message, advice }
    };
    let [(index, name)] = outputs.as_slice() else {
        return Err(match outputs.len() {
            0 => Failure::Usage {
                message: "the program has no floating output, so it has no gradients".to_owned(),
                advice: "`thunderhead trace MODEL` shows what it returns".to_owned(),
            },
            n => unclear(format!("it has {n} floating outputs")),
        });
    };
    let traces = &differentiated.traces;
    // An output that no wanted value reaches takes no cotangent; every gradient is zero then.
    let Some(at) = traces.cotangents.iter().position(|i| i == index) else { return Ok(FxHashMap::default()) };
    let (dtype, dims) = cotangent_type(&traces.backward, at, &differentiated.compiled_forward().sizes)
        .ok_or_else(|| unclear(format!("the size of `{name}` is known only when it runs")))?;
    match one_of(dtype).filter(|_| dims.iter().product::<i64>() == 1) {
        Some(raw) => {
            let tensor = Tensor::from_bytes(dtype, &dims, &raw)
                .map_err(|error| Failure::Fill { reason: error.to_string() })?;
            Ok(FxHashMap::from_iter([(*index, tensor)]))
        }
        None => Err(unclear(format!("`{name}` is {dtype}{dims:?}"))),
    }
}

/// 1 everywhere, as the cotangent of each output that takes one.
pub fn ones(differentiated: &Differentiated) -> Result<FxHashMap<usize, Tensor>, Failure> {
    let traces = &differentiated.traces;
    let sizes = &differentiated.compiled_forward().sizes;
    let mut all = FxHashMap::default();
    for (at, index) in traces.cotangents.iter().enumerate() {
        let unclear = || Failure::Usage {
            message: format!("the cotangent of output {index} has no known size, or is complex"),
            advice: "`thunderhead grad --cotangents FILE` takes any".to_owned(),
        };
        let (dtype, dims) = cotangent_type(&traces.backward, at, sizes).ok_or_else(unclear)?;
        let one = one_of(dtype).ok_or_else(unclear)?;
        let n = usize::try_from(dims.iter().product::<i64>()).map_err(|_| unclear())?;
        let tensor = Tensor::from_bytes(dtype, &dims, &one.repeat(n))
            .map_err(|error| Failure::Fill { reason: error.to_string() })?;
        all.insert(*index, tensor);
    }
    Ok(all)
}

type Sizes = FxHashMap<thunderhead::ir::Symbol, i64>;

fn cotangent_type(backward: &Trace, at: usize, sizes: &Sizes) -> Option<(Dtype, Vec<i64>)> {
    let mut cotangents = backward.params.iter().filter(|p| p.role.kind == RoleKind::Cotangent);
    let ty = backward.ty(cotangents.nth(at)?.value).tensor()?;
    let dims: Option<Vec<i64>> = ty.dims.iter().map(|dim| dim.eval(&|s| sizes.get(&s).copied())).collect();
    Some((ty.dtype, dims?))
}

/// The bytes of 1, for dtypes that losses have.
fn one_of(dtype: Dtype) -> Option<Vec<u8>> {
    Some(match dtype {
        Dtype::F64 => 1f64.to_le_bytes().to_vec(),
        Dtype::F32 => 1f32.to_le_bytes().to_vec(),
        Dtype::F16 => half::f16::ONE.to_le_bytes().to_vec(),
        Dtype::Bf16 => half::bf16::ONE.to_le_bytes().to_vec(),
        _ => return None,
    })
}
