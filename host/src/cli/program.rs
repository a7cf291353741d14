//! What most commands begin with: the host, the program, its inputs, a session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thunderhead::config::{LastResort, Notice, Overlay, Resolved, Start};
use thunderhead::ir::{Name, NumKind, NumberType, SymDecl, Symbol, Trace, TraceParam, Type};
use thunderhead::loader::LoadError;
use thunderhead::plan::PlanFile;
use thunderhead::run::{Compiled, GradRequest};
use thunderhead::tensor_files::read_inputs;
use thunderhead::{
    Error, Host, HostOptions, Look, NamedInputError, Program, Session, TrainOptions, Trainer, Value, look,
};

use super::args::{ConfigArgs, InputArgs, ModelArgs, WantedArgs};
use super::failure::Failure;
use super::fill::{Bits, filled, number_of, size_of};
use super::log;
use super::render::summary::Summary;
use super::render::{Screen, diagnostic};

/// Reads the config and all manifests, and says what was noticed. Nothing is loaded.
pub fn look_around(args: &ConfigArgs) -> Result<Look, Failure> {
    let start = match &args.config {
        Some(name) => Start::Named(name.clone()),
        None => Start::Search,
    };
    let overlay = Overlay { executors: args.executors.clone(), set: args.set.clone(), threads: args.threads };
    Ok(look(&HostOptions { start, overlay, ..HostOptions::default() })?)
}

/// The config that the arguments mean; what was noticed in it is said.
pub fn look_at_config(args: &ConfigArgs, screen: &Screen) -> Result<(Resolved, Vec<Notice>), Failure> {
    let look = look_around(args)?;
    let (resolved, notices) = look.resolved()?.clone();
    notices.iter().for_each(|notice| warn(notice, screen));
    let wanted = resolved.loaded(&look.found.manifests());
    let warnings = look.found.warnings_of(&|name| wanted.iter().any(|wanted| wanted.name == name));
    warnings.iter().for_each(|warning| say_warning(warning, screen));
    Ok((resolved, notices))
}

/// A host with the executors of the config loaded; what was left out is said.
pub fn open_host(args: &ConfigArgs, screen: &Screen) -> Result<Host, Failure> {
    load(usable(args, screen)?, screen)
}

/// A config that can be used.
fn usable(args: &ConfigArgs, screen: &Screen) -> Result<Look, Failure> {
    let look = look_around(args)?;
    let sources: Vec<&str> = look.chain.sources().map(|source| source.name()).collect();
    screen.detail(&format!("config: {}", sources.join(", based on ")));
    let (resolved, notices) = look.resolved()?;
    log::install(resolved, screen);
    notices.iter().for_each(|notice| warn(notice, screen));
    Ok(look)
}

fn load(look: Look, screen: &Screen) -> Result<Host, Failure> {
    let host = look.load()?;
    let takes_over = match host.config().last_resort.value {
        LastResort::Reference => {
            "; what it would take falls to the next in the order, at last to `reference`"
        }
        LastResort::None => "",
    };
    for refused in host.refused() {
        let (name, error) = (&refused.name, &refused.error);
        // A preset names who may well be missing: the summary line says so at each run, and `doctor` where it was looked for.
        if matches!(error, LoadError::NotFound { .. }) {
            screen.detail(&format!("executor `{name}` is not there: {error}{takes_over}"));
            continue;
        }
        let note = screen.err.warning("note");
        screen.say(&format!("{note}: executor `{name}` is left out: {error}{takes_over}"));
    }
    host.plugin_warnings().iter().for_each(|warning| say_warning(warning, screen));
    for skipped in host.found().skipped.iter().filter(|skipped| skipped.is_worth_a_note()) {
        warn(&skipped.error, screen);
    }
    Ok(host)
}

/// What is odd about a manifest.
fn say_warning((id, warning): &(String, String), screen: &Screen) {
    screen.say(&format!("{}: {id}: {warning}", screen.err.warning("note")));
}

fn warn(diagnostic: &dyn miette::Diagnostic, screen: &Screen) {
    screen.say(diagnostic::warning(diagnostic, screen.err).trim_end());
}

/// Opens the model, with other weights if they are given; what is odd about it is said.
pub fn open_program(args: &ModelArgs, screen: &Screen) -> Result<Program, Failure> {
    let mut program = Program::open(&args.model)?;
    if let Some(weights) = &args.weights {
        program = program.with_weights(weights)?;
    }
    for warning in program.warnings() {
        screen.say(&format!("{}: {warning}", screen.err.warning("note")));
    }
    Ok(program)
}

/// A program ready to be compiled and run on inputs.
pub struct Opened {
    pub host: Host,
    pub program: Program,
    pub session: Session,
    pub inputs: Vec<Value>,
}

impl Opened {
    /// Model, config and inputs are looked at, in this order, before any plugin is loaded.
    pub fn new(model: &ModelArgs, inputs: &InputArgs, screen: &Screen) -> Result<Opened, Failure> {
        let program = open_program(model, screen)?;
        let look = usable(&model.config, screen)?;
        let values = arranged(&program, &inputs.inputs, model.seed, screen)?;
        let host = load(look, screen)?;
        let seed = model.seed.cast_signed();
        let session = host.compile_seeded(&program, seed)?;
        Ok(Opened { host, program, session, inputs: values })
    }

    /// The program compiled for the inputs.
    pub fn compiled(&self) -> Result<Arc<Compiled>, Error> {
        self.session.compiled(&self.inputs)
    }

    /// The plan for the inputs.
    pub fn plan(&self) -> Result<PlanFile, Error> {
        self.session.plan(&self.inputs)
    }

    /// What the arguments ask of gradients; a name that the program does not have is an error.
    pub fn request(&self, wanted: &WantedArgs) -> Result<GradRequest, Error> {
        let wrt = match wanted.wrt.as_slice() {
            [] => None,
            globs => Some(self.program.names_wrt(globs)?),
        };
        Ok(GradRequest { wrt, remat: !wanted.no_remat })
    }

    /// Forward and backward compiled for the inputs. Where only a run tells sizes of what is saved, they are run.
    pub fn compiled_grad(&self, request: &GradRequest) -> Result<(Arc<Compiled>, Arc<Compiled>), Error> {
        let differentiated = self.session.differentiated(&self.inputs, request)?;
        let backward = &differentiated.traces.backward;
        let is_known = |p: &TraceParam| match backward.ty(p.value) {
            Type::Tensor(t) => t.dims.iter().all(|d| d.known().is_some()),
            Type::Number(_) => true,
        };
        if !backward.params.iter().all(is_known) {
            let (_, _, tape) = self.session.forward(&self.inputs, request)?;
            tape.backward(&Default::default())?;
        }
        self.session.compiled_grad(&self.inputs, request)
    }

    /// The plans for the inputs, by the name of their trace: `forward`, and `backward` where gradients are wanted.
    pub fn plans(&self, wanted: Option<&WantedArgs>) -> Result<Vec<(Name, PlanFile)>, Error> {
        Ok(self.programs(wanted)?.iter().map(|(name, program)| (name.clone(), program.plan_file())).collect())
    }

    /// The same, then those of nested traces, but of the ones whose sizes only a run knows.
    pub fn plans_with_nested(&self, wanted: Option<&WantedArgs>) -> Result<Vec<(Name, PlanFile)>, Error> {
        let programs = self.programs(wanted)?;
        let mut plans: Vec<(Name, PlanFile)> =
            programs.iter().map(|(name, program)| (name.clone(), program.plan_file())).collect();
        for nested in programs.iter().flat_map(|(_, program)| &program.nested) {
            let name = &nested.trace.name;
            if let Some(compiled) = &nested.compiled
                && plans.iter().all(|(known, _)| known != name)
            {
                plans.push((name.clone(), compiled.plan_file()));
            }
        }
        Ok(plans)
    }

    fn programs(&self, wanted: Option<&WantedArgs>) -> Result<Vec<(Name, Arc<Compiled>)>, Error> {
        let Some(wanted) = wanted else { return Ok(vec![("forward".into(), self.compiled()?)]) };
        let (forward, backward) = self.compiled_grad(&self.request(wanted)?)?;
        Ok(vec![("forward".into(), forward), ("backward".into(), backward)])
    }

    /// What a run of it was.
    pub fn summary(&self, compile: Duration, run: Duration) -> Result<Summary, Error> {
        Ok(self.summary_of(&[self.plan()?], compile, run))
    }

    /// What runs of these plans were.
    pub fn summary_of(&self, plans: &[PlanFile], compile: Duration, run: Duration) -> Summary {
        let mut ops_by_executor = BTreeMap::new();
        for (name, n) in plans.iter().flat_map(|plan| &plan.ops_by_executor) {
            *ops_by_executor.entry(name.clone()).or_insert(0) += n;
        }
        let mut handed_on = BTreeMap::new();
        for (name, n) in plans.iter().flat_map(|plan| &plan.handed_on) {
            *handed_on.entry(name.clone()).or_insert(0) += n;
        }
        let copies = || plans.iter().flat_map(|plan| &plan.copies);
        Summary {
            ops_by_executor,
            handed_on,
            n_regions: plans.iter().map(|plan| plan.regions.len()).sum(),
            n_copies: copies().count(),
            copied_bytes: copies().map(|copy| copy.bytes).sum(),
            refused: self.left_out(|error| !matches!(error, LoadError::NotFound { .. })),
            absent: self.left_out(|error| matches!(error, LoadError::NotFound { .. })),
            run,
            compile,
            peak_bytes: plans.iter().map(|plan| plan.arena_bytes + plan.output_bytes).sum(),
            saved_bytes: None,
        }
    }

    /// Executors of the config that could not be had for such a reason.
    fn left_out(&self, reason: impl Fn(&LoadError) -> bool) -> Vec<String> {
        let refused = self.host.refused().iter().filter(|refused| reason(&refused.error));
        refused.map(|refused| refused.name.clone()).collect()
    }

    /// Names of `like` that no plugin brings.
    pub fn skipped_likes(&self) -> Vec<(String, String)> {
        self.host.skipped_likes()
    }
}

/// A trainer of the model. Model and config are looked at before any plugin is loaded.
pub fn open_for_training(
    model: &ModelArgs,
    options: &TrainOptions,
    screen: &Screen,
) -> Result<Trainer, Failure> {
    let program = open_program(model, screen)?;
    let look = usable(&model.config, screen)?;
    Ok(load(look, screen)?.trainer(&program, options)?)
}

/// What a batch of `train` holds beside the inputs.
const TARGET: &str = "target";

/// The inputs of the files; with no file at all, all of them from the seed, which is said.
fn arranged(program: &Program, files: &[PathBuf], seed: u64, screen: &Screen) -> Result<Vec<Value>, Failure> {
    let mut given: BTreeMap<String, Value> = BTreeMap::new();
    for file in files {
        for (name, value) in read_inputs(file)? {
            if given.insert(name.clone(), value).is_some() {
                let message = format!("input `{name}` is in two of the files");
                let advice = format!("leave it out of {} or of another", file.display());
                return Err(Failure::Usage { message, advice });
            }
        }
    }
    // A batch that `train` takes runs, too: what only a loss looks at is passed over.
    if given.contains_key(TARGET) && !program.has_input(TARGET) {
        given.remove(TARGET);
        screen.say(&format!(
            "{}: `{TARGET}` is passed over: the program has no such input, only `train` looks at it",
            screen.err.warning("note")
        ));
    }
    if !files.is_empty() {
        return Ok(program.arrange(given, &mut |_, _| None)?);
    }
    let Some(trace) = program.module().traces.first() else {
        return Ok(program.arrange(given, &mut |_, _| None)?);
    };
    let value_of = |decl: &SymDecl| if is_size(trace, decl.symbol) { size_of(decl) } else { number_of(decl) };
    let sizes: BTreeMap<_, _> =
        program.module().dims.iter().map(|decl| (decl.symbol, value_of(decl))).collect();
    let mut said = Vec::new();
    let mut fault = None;
    let values = program.arrange(given, &mut |i, ty| {
        let size = |symbol| sizes.get(&symbol).copied();
        let dims = concrete(ty, &size)?;
        // An integer that sizes are made of has the value of its symbol.
        if let Type::Number(NumberType { kind: NumKind::Int, equals: Some(dim) }) = ty {
            let value = dim.eval(&size).map(Value::Int)?;
            said.push(described(&value));
            return Some(value);
        }
        match filled(ty, &dims, &mut Bits::new(seed, i)) {
            Ok(value) => {
                said.push(described(&value));
                Some(value)
            }
            Err(error) => {
                fault = Some(error);
                None
            }
        }
    });
    if let Some(error) = fault {
        return Err(Failure::Fill { reason: error.to_string() });
    }
    let values = match values {
        // Nobody gave any input, so that is no advice here.
        Err(Error::Named(NamedInputError::Missing { name, wanted })) => {
            let reason = format!("`{name}` is {wanted}, and its size is not known");
            return Err(Failure::Fill { reason });
        }
        values => values?,
    };
    if !said.is_empty() {
        screen.say(&format!("no --inputs: filled from seed {seed}: {}", said.join(", ")));
    }
    Ok(values)
}

/// Is the symbol in the dims of an input?
fn is_size(trace: &Trace, symbol: Symbol) -> bool {
    let mut found = false;
    for dim in trace.params.iter().filter_map(|p| trace.ty(p.value).tensor()).flat_map(|t| &t.dims) {
        dim.for_each_symbol(&mut |s| found |= s == symbol);
    }
    found
}

/// The dims of a tensor type with these sizes; empty for numbers. `None` where a size has no value.
fn concrete(ty: &Type, size: &dyn Fn(Symbol) -> Option<i64>) -> Option<Vec<i64>> {
    match ty {
        Type::Tensor(tensor) => tensor.dims.iter().map(|dim| dim.eval(&|symbol| size(symbol))).collect(),
        Type::Number(_) => Some(Vec::new()),
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => thunderhead::compare::described(tensor),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => format!("{float:?}"),
        Value::Bool(flag) => flag.to_string(),
        other => other.kind().to_owned(),
    }
}

/// `in0`, `in1`, …: what names a file's tensors that are inputs.
pub fn is_input_name(name: &str) -> bool {
    name.strip_prefix("in")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}
