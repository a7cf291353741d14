//! Tests of the text form as a whole: random modules come back from text and JSON as they were; mutated and hostile
//! texts are refused without a panic and in bounded time.

use super::{PrintOptions, from_json, parse, print, to_json};
use crate::ir::fault::Code;
use crate::ir::{
    Arg, Block, Bsym, Device, Dim, Dtype, Module, Name, NumKind, NumberType, Output, Role, RoleKind, Schema,
    Schemas, Stage, Stmt, SymDecl, SymKind, Symbol, TensorType, Trace, TraceParam, Type, ValueId, Who,
};
use proptest::prelude::*;

/// A few signatures that hold every case of rule 6.
struct Few(Vec<(&'static str, Schema)>);

impl Few {
    fn new() -> Few {
        let all = [
            ("few.tensors", "(a: Tensor, b: Tensor?, c: Tensor|num = 2, d: Tensor?[]) -> Tensor"),
            ("few.tail", "(a: Tensor, b: Tensor?, c: Tensor|num = 2.0) -> Tensor"),
            (
                "few.mixed",
                "(a: Tensor[], dims: dims, b: Tensor?, *, mode: str{none|q} = none, x: num?) -> Tensor",
            ),
            ("few.open", "(a: Tensor, n: int = 1, ...) -> Tensor"),
            ("num.add", "(a: num, b: num) -> num"),
        ];
        Few(all.map(|(n, s)| (n, Schema::parse(s).expect("a good signature"))).into())
    }
}

impl Schemas for Few {
    fn schema(&self, op: &str) -> Option<&Schema> {
        self.0.iter().find(|(n, _)| *n == op).map(|(_, s)| s)
    }
}

/// Makes a module of a list of choices; shorter lists make smaller modules, so that proptest can shrink.
struct Maker<'a> {
    choices: &'a [u32],
    at: usize,
    few: &'a Few,
    trace: Trace,
    n_values: usize,
}

impl Maker<'_> {
    /// A number below `n`; 0 once the choices are used up.
    fn pick(&mut self, n: usize) -> usize {
        let c = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        c as usize % n
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.pick(one_in) == one_in - 1
    }

    fn done(&self) -> bool {
        self.at >= self.choices.len()
    }

    fn bits(&mut self) -> u64 {
        (self.pick(1 << 32) as u64) << 32 | self.pick(1 << 32) as u64
    }

    fn one<'b, T: ?Sized>(&mut self, of: &[&'b T]) -> &'b T {
        of[self.pick(of.len())]
    }

    fn dim(&mut self, depth: usize) -> Dim {
        let symbols = [(SymKind::Input, 0), (SymKind::Input, 10), (SymKind::Data, 0)];
        if depth == 0 || self.done() {
            if self.chance(2) {
                let (kind, number) = symbols[self.pick(3)];
                return Dim::symbol(Symbol { kind, number });
            }
            return Dim::Known([0, 1, 2, 7, -3, i64::MAX, i64::MIN][self.pick(7)]);
        }
        let (a, b) = (self.dim(depth - 1), self.dim(depth - 1));
        match self.pick(7) {
            0 => a.add(&b),
            1 => a.sub(&b),
            2 => a.mul(&b),
            3 => a.floordiv(&b).unwrap_or(a),
            4 => a.modulo(&b).unwrap_or(a),
            5 => a.min_with(&b),
            _ => a.max_with(&b),
        }
    }

    fn dtype(&mut self) -> Dtype {
        Dtype::ALL[self.pick(Dtype::ALL.len())]
    }

    fn device(&mut self) -> Device {
        match self.pick(3) {
            0 | 1 => Device::Cpu,
            _ => Device::Other { kind: "cuda".into(), index: self.pick(3) as u32 },
        }
    }

    fn ty(&mut self) -> Type {
        if self.chance(4) {
            let kind = [NumKind::Int, NumKind::Float, NumKind::Bool][self.pick(3)];
            let equals = self.chance(2).then(|| self.dim(2));
            return Type::Number(NumberType { kind, equals });
        }
        let rank = self.pick(4);
        let dims: Vec<Dim> = (0..rank).map(|_| self.dim(1)).collect();
        TensorType { dims, dtype: self.dtype(), device: self.device() }.into()
    }

    fn text(&mut self) -> Name {
        self.one(&[
            "",
            "in0",
            "a \"b\" \\ c",
            "line\nend\ttab\r\u{8}\u{c}\u{1}\u{7f}",
            "é ∞ 漢 🦀",
            "# no comment {([",
            "true",
        ])
        .into()
    }

    fn word(&mut self) -> Name {
        self.one(&["node", "axis", "else", "dtype", "inf", "nan", "f32", "none", "_", "del", "yield", "s0"])
            .into()
    }

    fn float(&mut self) -> f64 {
        match self.pick(4) {
            0 => {
                [0.0, -0.0, 1.0, 1e-5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e16, 5e-324][self.pick(9)]
            }
            _ => f64::from_bits(self.bits()),
        }
    }

    fn literal(&mut self, depth: usize) -> Arg {
        match self.pick(10) {
            0 => Arg::None,
            1 => Arg::Int([0, -1, 3, i64::MIN, i64::MAX][self.pick(5)]),
            2 => Arg::Float(self.float()),
            3 => Arg::Bool(self.chance(2)),
            4 => Arg::Str(self.text()),
            5 => Arg::Complex(self.float(), self.float()),
            6 => Arg::Dtype(self.dtype()),
            7 => Arg::Device(self.device()),
            8 => Arg::dim(self.dim(3)),
            _ if depth == 0 => Arg::List(Vec::new()),
            _ => Arg::List((0..self.pick(4)).map(|_| self.literal(depth - 1)).collect()),
        }
    }

    fn arg(&mut self, seen: &[ValueId], depth: usize) -> Arg {
        match self.pick(5) {
            0 | 1 if !seen.is_empty() => Arg::Value(seen[self.pick(seen.len())]),
            2 => Arg::Trace("branch_0".into()),
            3 if depth > 0 => Arg::List((0..self.pick(4)).map(|_| self.arg(seen, depth - 1)).collect()),
            _ => self.literal(2),
        }
    }

    fn value(&mut self) -> ValueId {
        let name = format!("{}{}", self.one(&["t", "x.", "_", "q9.r", "inf"]), self.n_values);
        self.n_values += 1;
        let ty = self.ty();
        self.trace.add_value(name, ty)
    }

    fn param(&mut self) -> TraceParam {
        let value = self.value();
        let kind = RoleKind::ALL[self.pick(RoleKind::ALL.len())];
        let name = kind.has_name().then(|| self.text());
        TraceParam { value, role: Role { kind, name, frozen: kind.has_name() && self.chance(3) } }
    }

    fn bsym(&mut self, seen: &mut Vec<ValueId>, depth: usize) -> Bsym {
        let ops = [
            "few.tensors",
            "few.tail",
            "few.mixed",
            "few.open",
            "num.add",
            "acme.rope",
            "return.x",
            "FullFusion0",
        ];
        let op = self.one(&ops);
        let (mut args, mut named) = (Vec::new(), Vec::new());
        if let Some(schema) = self.few.schema(op) {
            for p in &schema.params {
                let default = p.absent_value().filter(|_| self.chance(2));
                args.push(default.unwrap_or_else(|| self.arg(seen, 2)));
            }
            if schema.variadic && self.chance(2) {
                args.push(self.arg(seen, 1));
                named.push(("more".into(), self.arg(seen, 1)));
            }
        } else {
            args = (0..self.pick(4)).map(|_| self.arg(seen, 3)).collect();
            named = (0..self.pick(3)).map(|i| (format!("k{i}").into(), self.arg(seen, 1))).collect();
        }
        let results: Vec<_> = (0..self.pick(3)).map(|_| (!self.chance(4)).then(|| self.value())).collect();
        let mut bsym = Bsym::new(op, args, results);
        bsym.named = named;
        if self.chance(3) {
            let delegate = self.chance(2).then(|| "pytorch".into());
            bsym.who = Some(Who { executor: "full_fusion".into(), delegate });
        }
        bsym.notes = (0..self.pick(3)).map(|_| (self.word(), self.literal(1))).collect();
        // A JSON object has each key once, and so have notes that mean something.
        bsym.notes.dedup_by(|a, b| a.0 == b.0);
        if depth > 0 && self.chance(3) {
            let mut inner = seen.clone();
            let body = self.body(&mut inner, depth - 1);
            let yields = (0..self.pick(3)).map(|_| self.output(&inner)).collect();
            bsym.block = Some(Box::new(Block { body, yields }));
        }
        seen.extend(bsym.defined());
        bsym
    }

    fn output(&mut self, seen: &[ValueId]) -> Arg {
        if !seen.is_empty() && self.chance(2) {
            Arg::Value(seen[self.pick(seen.len())])
        } else {
            self.literal(1)
        }
    }

    fn body(&mut self, seen: &mut Vec<ValueId>, depth: usize) -> Vec<Stmt> {
        let mut body = Vec::new();
        for _ in 0..self.pick(6) {
            if self.done() {
                break;
            }
            if !seen.is_empty() && self.chance(5) {
                body.push(Stmt::Del((0..1 + self.pick(2)).map(|_| seen[self.pick(seen.len())]).collect()));
            } else {
                let bsym = self.bsym(seen, depth);
                body.push(Stmt::Op(bsym));
            }
        }
        body
    }

    fn trace(&mut self, name: &str) -> Trace {
        self.trace = Trace::new(name, Stage::ALL[self.pick(5)]);
        self.trace.model = self.chance(2).then(|| self.text());
        let params = (0..self.pick(4)).map(|_| self.param()).collect::<Vec<_>>();
        let mut seen: Vec<ValueId> = params.iter().map(|p| p.value).collect();
        self.trace.params = params;
        self.trace.body = self.body(&mut seen, 3);
        self.trace.outputs = (0..self.pick(3))
            .map(|_| Output { value: self.output(&seen), name: self.chance(2).then(|| self.text()) })
            .collect();
        self.trace.save = seen.iter().copied().filter(|_| self.chance(4)).collect();
        self.trace.clone()
    }

    fn module(&mut self) -> Module {
        let decl = |m: &mut Self, number| SymDecl {
            symbol: Symbol { kind: SymKind::Input, number },
            low: [0, 1, i64::MIN][m.pick(3)],
            high: m.chance(2).then_some(64),
            step: 1 + m.pick(2) as i64,
        };
        let dims = (0..self.pick(3)).map(|i| decl(self, i as u32)).collect();
        let traces = (0..1 + self.pick(2)).map(|i| self.trace(&format!("trace_{i}"))).collect();
        Module { dims, traces }
    }
}

fn module_of(choices: &[u32], few: &Few) -> Module {
    let trace = Trace::new("none", Stage::Acquired);
    Maker { choices, at: 0, few, trace, n_values: 0 }.module()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// parse ∘ print = id, print ∘ parse = id on what was printed, and both by way of JSON.
    #[test]
    fn random_modules_come_back(choices in proptest::collection::vec(any::<u32>(), 0..400)) {
        let few = Few::new();
        let module = module_of(&choices, &few);
        let printed = print(&module, &few, &PrintOptions::FULL);
        let back = parse(&printed, &few).map_err(|e| TestCaseError::fail(format!("{e}\n{printed}")))?.module;
        prop_assert_eq!(&back, &module, "{}", printed);
        prop_assert_eq!(print(&back, &few, &PrintOptions::FULL), printed);
        let json = to_json(&module, &few).to_string();
        let back = from_json(&json, &few).map_err(|e| TestCaseError::fail(format!("{e}\n{json}")))?;
        prop_assert_eq!(&back, &module, "{}", json);
    }
}

fn fixtures() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/traces/format");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder").filter_map(Result::ok).collect();
    files.sort_by_key(|f| f.path());
    files.iter().map(|f| std::fs::read_to_string(f.path()).expect("a readable file")).collect()
}

/// xorshift: the same mutations each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

fn mutate(text: &mut Vec<u8>, dice: &mut Dice) {
    const PIECES: [&str; 24] = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "%",
        "%x",
        ",",
        "=",
        "\n",
        "-",
        "1e999",
        "99999999999999999999",
        "_",
        "none",
        "s0 // 0",
        "mod(",
        "\"",
        "\\",
        "é",
        "yield",
        "del %x",
        "#",
    ];
    let (a, b) = (dice.roll(text.len()), dice.roll(text.len()));
    let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 40));
    match dice.roll(5) {
        0 if !text.is_empty() => text[a] = dice.roll(256) as u8,
        1 => drop(text.drain(from..to)),
        2 => {
            let piece: Vec<u8> = text[from..to].to_vec();
            let at = dice.roll(text.len());
            text.splice(at..at, piece);
        }
        _ => drop(text.splice(from..from, PIECES[dice.roll(PIECES.len())].bytes())),
    }
}

/// Mutated fixtures are read or refused; what is read comes back.
#[test]
fn mutated_texts_never_panic() {
    let few = Few::new();
    let fixtures = fixtures();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut n_read = 0;
    for round in 0..4000 {
        let mut bytes = fixtures[round % fixtures.len()].clone().into_bytes();
        for _ in 0..1 + dice.roll(3) {
            mutate(&mut bytes, &mut dice);
        }
        let text = String::from_utf8_lossy(&bytes);
        match parse(&text, &few) {
            Ok(parsed) => {
                n_read += 1;
                let printed = print(&parsed.module, &few, &PrintOptions::FULL);
                let back = parse(&printed, &few).unwrap_or_else(|e| panic!("round {round}: {e}\n{printed}"));
                assert_eq!(back.module, parsed.module, "round {round}\n{printed}");
            }
            Err(faults) => {
                assert!(faults.faults.iter().all(|f| f.position.is_some()), "round {round}: {faults}");
            }
        }
    }
    assert!(n_read > 50, "too few mutations can be read to test anything: {n_read}");
}

#[test]
fn mutated_json_never_panics() {
    let few = Few::new();
    let fixtures: Vec<String> = fixtures()
        .iter()
        .map(|t| to_json(&parse(t, &few).expect("a fixture").module, &few).to_string())
        .collect();
    let mut dice = Dice(0x1234_5678_9abc_def1);
    for round in 0..1500 {
        let mut bytes = fixtures[round % fixtures.len()].clone().into_bytes();
        mutate(&mut bytes, &mut dice);
        if let Ok(module) = from_json(&String::from_utf8_lossy(&bytes), &few) {
            print(&module, &few, &PrintOptions::FULL);
        }
    }
}

fn in_trace(body: &str) -> String {
    format!(
        "thunderhead trace 1.0\n\ntrace f(\n    %x: f32[] input \"x\",\n) stage acquired {{\n{body}    return\n}}\n"
    )
}

/// Texts made to be slow, deep or large are refused or read, soon.
#[test]
fn hostile_texts_are_bounded() {
    let refused = |body: &str, code: Code| {
        let faults = parse(&in_trace(body), &Few::new()).expect_err("must be refused");
        assert_eq!(faults.faults[0].code, code, "{faults}");
    };
    let n = 200_000;
    refused(&format!("    f({}\n", "[".repeat(n)), Code::Limit);
    refused(&format!("    f({}\n", "(".repeat(n)), Code::Limit);
    refused(&format!("    f(s0{})\n", " + s0".repeat(n)), Code::Limit);
    refused(&format!("    f(s0{})\n", " // 2".repeat(n)), Code::Limit);
    refused(&format!("    f(s0{})\n", "*(s0 + s1)".repeat(n)), Code::Limit);
    refused(&format!("    f({}s0{})\n", "mod((s0 + s1)*".repeat(64), ", 7)".repeat(64)), Code::Limit);
    refused(&format!("    f({})\n", "mod(s0, ".repeat(65) + "3" + &")".repeat(65)), Code::Limit);
    refused(&"    f() {\n".repeat(n), Code::Limit);
    refused(&format!("    f({}\n", "%y, ".repeat(n)), Code::UndefinedValue);
    refused(&format!("    f(%{}y)\n", "x".repeat(n)), Code::UndefinedValue);
    refused(&(0..n).map(|i| format!("    f(%y{i})\n")).collect::<String>(), Code::UndefinedValue);
    refused(
        &format!("    f(k0=1{})\n", (1..n).map(|i| format!(", k{i}=1")).collect::<String>()),
        Code::Argument,
    );
    refused("    f(9223372036854775808)\n", Code::Number);
    refused("    f(1e999)\n", Code::Number);
    refused("    f(s0 // (1 - 1))\n", Code::Number);
    let good = |body: &str| {
        let parsed = parse(&in_trace(body), &Few::new()).unwrap_or_else(|e| panic!("{e}"));
        let printed = print(&parsed.module, &Few::new(), &PrintOptions::FULL);
        assert_eq!(parse(&printed, &Few::new()).map(|p| p.module), Ok(parsed.module));
    };
    good(&format!("    f({}{})\n", "[".repeat(64), "]".repeat(64)));
    good(&format!("    f({}s0{})\n", "(".repeat(64), " // 2)".repeat(64)));
    good(&format!("    f({}s0{})\n", "mod(".repeat(64), ", 3)".repeat(64)));
    good(&format!("    f({})\n", (0..1000).map(|i| format!("s{i}")).collect::<Vec<_>>().join(" + ")));
    good(&"    %y: f32[] = f(%x)\n".repeat(n / 4));
    good(&format!("{}    yield\n{}", "    f() {\n".repeat(64), "    }\n    yield\n".repeat(63) + "    }\n"));
}
