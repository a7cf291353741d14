//! Do the inputs fit the program? Binds its symbols, or says which input does not and why, before anything runs.

use super::value::Value;
use crate::ir::{Dim, Dtype, Module, NumKind, RoleKind, SymKind, Symbol, Trace, Type};
use crate::plan::Number;
use rustc_hash::FxHashMap;

/// An input that does not fit (exit 10).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum InputError {
    /// Wrong number.
    #[error("{found} inputs were given, the program takes {wanted}: {names}")]
    #[diagnostic(
        code(input::count),
        help("give one input for each of the names, in order (`in0`, `in1`, …)")
    )]
    Count {
        /// Given.
        found: usize,
        /// Taken.
        wanted: usize,
        /// Their names.
        names: String,
    },
    /// Another kind of thing.
    #[error("input `{name}` is {found}, the program takes {wanted}")]
    #[diagnostic(code(input::kind), help("numbers and None travel in a JSON file of inputs"))]
    Kind {
        /// The input.
        name: String,
        /// What was given.
        found: String,
        /// What it takes.
        wanted: String,
    },
    /// Another dtype.
    #[error("input `{name}` is {found}, the program takes {wanted}")]
    #[diagnostic(code(input::dtype), help("convert the input; the program does not do it silently"))]
    Dtype {
        /// The input.
        name: String,
        /// What was given.
        found: Dtype,
        /// What it takes.
        wanted: Dtype,
    },
    /// Another number of dims.
    #[error("input `{name}` has dims {found:?}, the program takes {wanted}")]
    #[diagnostic(code(input::rank), help("give the number of dims that the program was exported with"))]
    Rank {
        /// The input.
        name: String,
        /// What was given.
        found: Vec<i64>,
        /// What it takes.
        wanted: String,
    },
    /// A size that is not the program's.
    #[error("dim {dim} of input `{name}` is {found}, the program takes {wanted}")]
    #[diagnostic(code(input::size), help("export the model with this dim dynamic, or give the size it has"))]
    Size {
        /// The input.
        name: String,
        /// Which dim.
        dim: usize,
        /// What was given.
        found: i64,
        /// What it takes, with what is known of its symbols.
        wanted: String,
    },
    /// A symbol outside its range.
    #[error("`{symbol}` would be {found} (from input `{name}`), the model allows {range}")]
    #[diagnostic(code(input::range), help("the range comes from the export; export again with a wider one"))]
    Range {
        /// The symbol.
        symbol: String,
        /// The input that gave it.
        name: String,
        /// Its value.
        found: i64,
        /// What is allowed.
        range: String,
    },
    /// The sizes break a condition under which the model was recorded.
    #[error("these input sizes do not fit the model: {what} (at {origin})")]
    #[diagnostic(code(input::guard), help("the export recorded the program for sizes where this holds"))]
    Guard {
        /// What differs, with both values.
        what: String,
        /// Where.
        origin: String,
    },
    /// A weight that neither the model file nor `--weights` gives.
    #[error("no value for {role} `{name}`: a trace has no weights of its own, give them with --weights")]
    #[diagnostic(
        code(input::missing_weight),
        help("give the `.pt2` file or a safetensors file with `--weights`")
    )]
    MissingWeight {
        /// `param`, `buffer`, ….
        role: &'static str,
        /// Its FQN.
        name: String,
    },
}

/// Values of symbols and of number inputs.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// Symbols.
    pub sizes: FxHashMap<Symbol, i64>,
}

/// Checks `inputs` (one for each user parameter of `trace`, in order) and binds the symbols.
pub fn bind_inputs(module: &Module, trace: &Trace, inputs: &[Value]) -> Result<Bindings, InputError> {
    let params: Vec<_> =
        trace.params.iter().filter(|p| matches!(p.role.kind, RoleKind::Input | RoleKind::Inout)).collect();
    let name_of = |i: usize| params[i].role.name.as_deref().unwrap_or("?").to_string();
    if params.len() != inputs.len() {
        let names = (0..params.len()).map(name_of).collect::<Vec<_>>().join(", ");
        return Err(InputError::Count { found: inputs.len(), wanted: params.len(), names });
    }
    let mut bound = Bindings::default();
    let mut equations: Vec<Equation<'_>> = Vec::new();
    for (i, (p, given)) in params.iter().zip(inputs).enumerate() {
        match (trace.ty(p.value), given) {
            (Type::Tensor(ty), Value::Tensor(t)) => {
                if ty.dtype != t.dtype() {
                    return Err(InputError::Dtype { name: name_of(i), found: t.dtype(), wanted: ty.dtype });
                }
                if ty.dims.len() != t.dims().len() {
                    let wanted = crate::ops::meta::show(&ty.dims);
                    return Err(InputError::Rank { name: name_of(i), found: t.dims().to_vec(), wanted });
                }
                equations.extend(ty.dims.iter().zip(t.dims()).enumerate().map(|(d, (dim, n))| Equation {
                    input: i,
                    at: Some(d),
                    dim,
                    value: *n,
                }));
            }
            (Type::Number(ty), given) => {
                let number = number_input(ty.kind, given).ok_or_else(|| InputError::Kind {
                    name: name_of(i),
                    found: given.kind().into(),
                    wanted: ty.kind.name().into(),
                })?;
                if let (Some(dim), Number::Int(n)) = (&ty.equals, number) {
                    equations.push(Equation { input: i, at: None, dim, value: n });
                }
            }
            (Type::Tensor(ty), given) => {
                let wanted = format!("a tensor {}{}", ty.dtype, crate::ops::meta::show(&ty.dims));
                return Err(InputError::Kind { name: name_of(i), found: given.kind().into(), wanted });
            }
        }
    }
    solve(module, &mut bound, &equations, &name_of)?;
    for e in &equations {
        let found = e.dim.eval(&|s| bound.sizes.get(&s).copied());
        if found != Some(e.value) {
            let wanted = described(e.dim, &bound);
            return Err(match e.at {
                Some(dim) => InputError::Size { name: name_of(e.input), dim, found: e.value, wanted },
                None => InputError::Kind { name: name_of(e.input), found: e.value.to_string(), wanted },
            });
        }
    }
    Ok(bound)
}

struct Equation<'a> {
    input: usize,
    at: Option<usize>,
    dim: &'a Dim,
    value: i64,
}

/// Symbols that stand alone first, then those in linear expressions (`4*s0`, `s1 + 1`), and the ranges of all.
fn solve(
    module: &Module,
    bound: &mut Bindings,
    equations: &[Equation<'_>],
    name_of: &dyn Fn(usize) -> String,
) -> Result<(), InputError> {
    let mut source: FxHashMap<Symbol, usize> = FxHashMap::default();
    for e in equations {
        if let Some(s) = e.dim.as_symbol() {
            bound.sizes.entry(s).or_insert(e.value);
            source.entry(s).or_insert(e.input);
        }
    }
    for e in equations {
        if let Some((k, s, c)) = e.dim.as_linear()
            && !bound.sizes.contains_key(&s)
        {
            let rest = e.value.saturating_sub(c);
            if k == 0 || rest % k != 0 {
                let wanted = format!("{}, so {rest} must be a multiple of {k}", e.dim);
                return Err(InputError::Size {
                    name: name_of(e.input),
                    dim: e.at.unwrap_or(0),
                    found: e.value,
                    wanted,
                });
            }
            bound.sizes.insert(s, rest / k);
            source.insert(s, e.input);
        }
    }
    for decl in module.dims.iter().filter(|d| d.symbol.kind == SymKind::Input) {
        let Some(&found) = bound.sizes.get(&decl.symbol) else { continue };
        let inside =
            found >= decl.low && decl.high.is_none_or(|h| found <= h) && found % decl.step.max(1) == 0;
        if !inside {
            let high = decl.high.map_or_else(String::new, |h| h.to_string());
            let step = if decl.step > 1 { format!(" in steps of {}", decl.step) } else { String::new() };
            return Err(InputError::Range {
                symbol: decl.symbol.to_string(),
                name: source.get(&decl.symbol).map_or_else(|| "?".into(), |i| name_of(*i)),
                found,
                range: format!("{}..{high}{step}", decl.low),
            });
        }
    }
    Ok(())
}

/// A dim with the values of its symbols: `2*s0 + 1 = 9 (s0 = 4)`.
fn described(dim: &Dim, bound: &Bindings) -> String {
    if let Dim::Known(n) = dim {
        return n.to_string();
    }
    let mut known = Vec::new();
    dim.for_each_symbol(&mut |s| {
        if let Some(n) = bound.sizes.get(&s) {
            let text = format!("{s} = {n}");
            if !known.contains(&text) {
                known.push(text);
            }
        }
    });
    match dim.eval(&|s| bound.sizes.get(&s).copied()) {
        Some(n) if dim.as_symbol().is_some() => format!("{dim} = {n}"),
        Some(n) => format!("{dim} = {n} ({})", known.join(", ")),
        None => dim.to_string(),
    }
}

/// An input number in the kind that the program takes: integers pass as floats.
pub fn number_input(kind: NumKind, given: &Value) -> Option<Number> {
    match (kind, given) {
        (NumKind::Int, Value::Int(n)) => Some(Number::Int(*n)),
        (NumKind::Float, Value::Float(x)) => Some(Number::Float(*x)),
        (NumKind::Float, Value::Int(n)) => Some(Number::Float(*n as f64)),
        (NumKind::Bool, Value::Bool(b)) => Some(Number::Bool(*b)),
        _ => None,
    }
}
