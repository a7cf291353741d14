//! Draws recipes: each call from a family of what models are made of, its operands from what stands already or from new
//! inputs.
//!
//! Executors round differently, so what is drawn must not make more of a rounding than it is: nothing that jumps is
//! asked of a rounded value, nothing divides by what may be near zero, and what grows is brought back by `tanh`.

use thunderhead::ir::{Arg, Dim, Dtype, Stage, TensorType, Trace};
use thunderhead::ops::{self, Builder};

use crate::random::SplitMix64;
use crate::recipe::{Fact, Made, Operand, Precision, Recipe, Step, argument};

/// What a program is made of, from its seed.
pub struct Rng(SplitMix64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(SplitMix64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D))
    }

    fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// Values of every dtype: multiples of 1/16 in [-2, 2) for floats, small counts for integers.
pub fn elements(rng: &mut Rng, dtype: Dtype, n: usize, below: Option<i64>) -> Vec<f64> {
    let element = |rng: &mut Rng| match (dtype, below) {
        (Dtype::Bool, _) => rng.below(2) as f64,
        (_, Some(below)) => rng.below(below as usize) as f64,
        (dtype, None) if dtype.is_inexact() => rng.below(64) as f64 / 16.0 - 2.0,
        _ => rng.below(9) as f64 - 4.0,
    };
    (0..n).map(|_| element(rng)).collect()
}

/// The recipe of a seed.
pub fn recipe(seed: u64) -> Recipe {
    let mut rng = Rng::new(seed);
    let dtype =
        rng.pick(&[Dtype::F32, Dtype::F32, Dtype::F32, Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16]);
    let n_calls = 2 + rng.below(14);
    let mut maker = Maker {
        rng,
        dtype,
        recipe: Recipe::default(),
        trace: Trace::new("forward", Stage::Acquired),
        ids: Vec::new(),
    };
    let start = 1 + maker.rng.below(2);
    for _ in 0..start {
        let dims = maker.dims();
        maker.input(dtype, dims, None);
    }
    while maker.recipe.steps.len() < n_calls {
        maker.call();
    }
    maker.recipe
}

struct Maker {
    rng: Rng,
    /// Of new floating inputs.
    dtype: Dtype,
    recipe: Recipe,
    /// Where calls are tried for the types that they give.
    trace: Trace,
    ids: Vec<Option<thunderhead::ir::ValueId>>,
}

const SIZES: &[i64] = &[1, 2, 3, 4, 5, 7, 8, 16, 17, 33];

/// Beyond this, what follows is led through `tanh`.
const LARGE: f64 = 64.0;

/// Elements of a value, at most.
const MOST: i64 = 6_000;

type Named<'a> = (&'a str, Operand);

fn plain(arg: Arg) -> Operand {
    Operand::Plain(arg)
}

fn int(n: i64) -> Operand {
    plain(Arg::Int(n))
}

fn ints(all: &[i64]) -> Operand {
    plain(Arg::List(all.iter().map(|n| Arg::Int(*n)).collect()))
}

fn float(x: f64) -> Operand {
    plain(Arg::Float(x))
}

impl Maker {
    fn dims(&mut self) -> Vec<i64> {
        let rank = self.rng.pick(&[0, 1, 2, 2, 2, 3, 3, 4]);
        let mut dims: Vec<i64> = (0..rank).map(|_| self.rng.pick(SIZES)).collect();
        if self.rng.chance(60) && rank > 0 {
            let axis = self.rng.below(rank);
            dims[axis] = 0;
        }
        while dims.iter().product::<i64>() > MOST {
            let largest = (0..rank).max_by_key(|axis| dims[*axis]).expect("some");
            dims[largest] = (dims[largest] / 2).max(1);
        }
        dims
    }

    /// A new input; integers are from 0 up to `below`.
    fn input(&mut self, dtype: Dtype, dims: Vec<i64>, below: Option<i64>) -> usize {
        let n = dims.iter().product::<i64>() as usize;
        let elements = elements(&mut self.rng, dtype, n, below);
        let ty = TensorType::new(dims.iter().map(|n| Dim::Known(*n)).collect::<Vec<_>>(), dtype);
        let name = format!("v{}", self.ids.len());
        self.ids.push(Some(self.trace.add_value(name.as_str(), ty.into())));
        let bound = elements.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        self.recipe.values.push(Fact { dtype, dims, made: Made::Input(elements), exact: true, bound });
        self.recipe.values.len() - 1
    }

    fn fact(&self, place: usize) -> &Fact {
        &self.recipe.values[place]
    }

    /// A floating value, rather a late one; a new input at times.
    fn some(&mut self) -> usize {
        self.some_where(|_| true)
    }

    fn some_where(&mut self, good: impl Fn(&Fact) -> bool) -> usize {
        let floats = |fact: &Fact| fact.dtype.is_inexact() && good(fact);
        let good: Vec<usize> = (0..self.recipe.values.len()).filter(|v| floats(self.fact(*v))).collect();
        if good.is_empty() || self.rng.chance(12) {
            for _ in 0..200 {
                let dims = self.dims();
                let made = Made::Input(Vec::new());
                let fact = Fact { dtype: self.dtype, dims: dims.clone(), made, exact: true, bound: 2.0 };
                if floats(&fact) {
                    return self.input(self.dtype, dims, None);
                }
            }
        }
        // The later half twice as often.
        let at = self.rng.below(good.len()).max(self.rng.below(good.len()));
        good[at]
    }

    fn of_rank(&mut self, least: usize) -> usize {
        self.some_where(|fact| fact.dims.len() >= least)
    }

    /// A value of that dtype that broadcasts with `dims` and does not widen it; a new input where none stands.
    fn beside(&mut self, dtype: Dtype, dims: &[i64]) -> usize {
        let fits = |fact: &Fact| {
            let (a, b) = (fact.dims.iter().rev(), dims.iter().rev());
            fact.dtype == dtype && fact.dims.len() <= dims.len() && a.zip(b).all(|(a, b)| a == b || *a == 1)
        };
        let good: Vec<usize> = (0..self.recipe.values.len()).filter(|v| fits(self.fact(*v))).collect();
        if !good.is_empty() && !self.rng.chance(3) {
            let at = self.rng.below(good.len());
            return good[at];
        }
        let skip = if dims.is_empty() { 0 } else { self.rng.below(dims.len()) };
        let keep = |rng: &mut Rng, n: i64| if rng.chance(4) { 1 } else { n };
        let own: Vec<i64> = dims[skip..].iter().map(|n| keep(&mut self.rng, *n)).collect();
        self.input(dtype, own, None)
    }

    /// Makes a call; none where the op does not take its operands, or gives too much. A large result goes through `tanh`.
    fn make(&mut self, op: &str, args: &[Named], exact: bool, bound: f64) -> Option<Vec<usize>> {
        let op = ops::find(op).unwrap_or_else(|| panic!("no op `{op}`"));
        let schema = ops::table::schema_of(op);
        let given = |name: &str| args.iter().find(|(n, _)| *n == name).map(|(_, operand)| operand.clone());
        args.iter().for_each(|(name, _)| assert!(schema.index(name).is_some(), "{}: no `{name}`", op.name));
        let full: Option<Vec<Operand>> =
            schema.params.iter().map(|p| given(&p.name).or_else(|| p.absent_value().map(plain))).collect();
        let full = full.unwrap_or_else(|| panic!("{}: an argument is missing", op.name));
        let call = full.iter().map(|operand| argument(operand, &self.ids, Precision::Own)).collect();
        let mut builder = Builder::top(&mut self.trace);
        let results = builder.call_op(op, call).ok()?;
        drop(builder.finish());
        let mut found = Vec::new();
        for id in crate::recipe::flat(&results) {
            let ty = self.trace.ty(id).tensor()?.clone();
            let dims: Option<Vec<i64>> = ty.dims.iter().map(Dim::known).collect();
            found.push((id, ty.dtype, dims.filter(|dims| dims.iter().product::<i64>() <= MOST)?));
        }
        let step = self.recipe.steps.len();
        self.recipe.steps.push(Step { op, args: full });
        let mut places = Vec::new();
        for (id, dtype, dims) in found {
            let exact = exact || !dtype.is_inexact();
            self.ids.push(Some(id));
            self.recipe.values.push(Fact { dtype, dims, made: Made::By(step), exact, bound });
            places.push(self.recipe.values.len() - 1);
        }
        if bound > LARGE && places.iter().all(|place| self.fact(*place).dtype.is_inexact()) {
            let places: Option<Vec<Vec<usize>>> = places
                .iter()
                .map(|place| self.make("torch.tanh", &[("a", Operand::Value(*place))], false, 1.0))
                .collect();
            return Some(places?.concat());
        }
        Some(places)
    }

    fn one(&mut self, op: &str, args: &[Named], exact: bool, bound: f64) -> Option<usize> {
        self.make(op, args, exact, bound)?.first().copied()
    }

    fn call(&mut self) {
        type Family = fn(&mut Maker) -> Option<()>;
        let families: &[(usize, Family)] = &[
            (6, Maker::unary),
            (6, Maker::binary),
            (3, Maker::chosen),
            (2, Maker::cast),
            (6, Maker::view),
            (4, Maker::joined),
            (4, Maker::reduced),
            (4, Maker::normed),
            (3, Maker::product),
            (1, Maker::attention),
            (2, Maker::rotary),
            (3, Maker::indexed),
            (2, Maker::arranged),
            (1, Maker::dropped),
            (1, Maker::lost),
        ];
        let mut at = self.rng.below(families.iter().map(|(weight, _)| weight).sum());
        for (weight, family) in families {
            if at < *weight {
                let _ = family(self);
                return;
            }
            at -= weight;
        }
    }

    fn unary(&mut self) -> Option<()> {
        let a = self.some();
        let fact = self.fact(a).clone();
        let of = [("a", Operand::Value(a))];
        let safe: &[(&str, f64)] = &[
            ("torch.tanh", 1.0),
            ("torch.sigmoid", 1.0),
            ("torch.erf", 1.0),
            ("torch.sin", 1.0),
            ("torch.cos", 1.0),
            ("torch.gelu", fact.bound),
            ("torch.silu", fact.bound),
            ("torch.mish", fact.bound),
            ("torch.softplus", fact.bound + 1.0),
            ("torch.elu", fact.bound),
            ("torch.leaky_relu", fact.bound),
            ("torch.hardswish", fact.bound),
            ("torch.asinh", fact.bound),
            ("torch.square", fact.bound * fact.bound),
        ];
        let exact: &[&str] = &["torch.neg", "torch.abs", "torch.relu", "torch.hardtanh"];
        match self.rng.below(8) {
            0 | 1 => {
                let op = self.rng.pick(exact);
                self.one(op, &of, fact.exact, fact.bound)?;
            }
            2 if fact.bound <= 4.0 => {
                let op = self.rng.pick(&["torch.exp", "torch.expm1", "torch.sinh"]);
                self.one(op, &of, false, fact.bound.exp())?;
            }
            3 => {
                // Away from where the slope is steep.
                let a = self.one("torch.abs", &of, fact.exact, fact.bound)?;
                let args = [("a", Operand::Value(a)), ("b", float(0.5))];
                let a = self.one("torch.add", &args, false, fact.bound + 0.5)?;
                let op = self.rng.pick(&["torch.sqrt", "torch.rsqrt", "torch.log1p", "torch.reciprocal"]);
                self.one(op, &[("a", Operand::Value(a))], false, (fact.bound + 2.0).max(2.0))?;
            }
            _ => {
                let (op, bound) = self.rng.pick(safe);
                self.one(op, &of, false, bound)?;
            }
        }
        Some(())
    }

    fn binary(&mut self) -> Option<()> {
        let a = self.some();
        let fact = self.fact(a).clone();
        let b = if self.rng.chance(5) {
            (float(self.rng.pick(&[0.5, -1.25, 2.0, 3.0])), 3.0)
        } else {
            let b = self.beside(fact.dtype, &fact.dims);
            (Operand::Value(b), self.fact(b).bound)
        };
        let (b, other) = b;
        let mut pair = [("a", Operand::Value(a)), ("b", b)];
        if self.rng.chance(2) {
            let (head, tail) = pair.split_at_mut(1);
            std::mem::swap(&mut head[0].1, &mut tail[0].1);
        }
        match self.rng.below(8) {
            0 | 1 => self.one("torch.add", &pair, false, fact.bound + other),
            2 => self.one("torch.sub", &pair, false, fact.bound + other),
            3 | 4 => self.one("torch.mul", &pair, false, fact.bound * other),
            5 => {
                let op = self.rng.pick(&["torch.maximum", "torch.minimum"]);
                self.one(op, &pair, false, fact.bound.max(other))
            }
            6 => {
                let below = self.one("torch.abs", &[("a", pair[1].1.clone())], false, other)?;
                let args = [("a", Operand::Value(below)), ("b", float(1.0))];
                let below = self.one("torch.add", &args, false, other + 1.0)?;
                let args = [pair[0].clone(), ("b", Operand::Value(below))];
                self.one("torch.true_divide", &args, false, fact.bound.max(other))
            }
            _ => {
                let c = self.beside(fact.dtype, &fact.dims);
                let args =
                    [("start", Operand::Value(a)), ("end", Operand::Value(c)), ("weight", float(0.25))];
                self.one("torch.lerp", &args, false, fact.bound.max(self.fact(c).bound) * 1.5)
            }
        }
        .map(|_| ())
    }

    /// A bool of these dims or fewer: a comparison of what nobody rounds, or an input.
    fn condition(&mut self, dims: &[i64]) -> Option<usize> {
        let exact = |fact: &&Fact| fact.exact && fact.dtype.is_inexact();
        if self.rng.chance(2) && self.recipe.values.iter().any(|fact| exact(&fact) && fact.dims == dims) {
            let a = self.some_where(|fact| fact.exact && fact.dims == dims);
            let op = self.rng.pick(&["torch.gt", "torch.le", "torch.eq", "torch.ne", "torch.lt", "torch.ge"]);
            let b = float(self.rng.pick(&[0.0, 0.25, -1.0]));
            return self.one(op, &[("a", Operand::Value(a)), ("b", b)], true, 1.0);
        }
        Some(self.beside(Dtype::Bool, dims))
    }

    fn chosen(&mut self) -> Option<()> {
        let a = self.some();
        let fact = self.fact(a).clone();
        match self.rng.below(4) {
            0 => {
                let args = [("a", Operand::Value(a)), ("min", float(-1.0)), ("max", float(0.75))];
                self.one("torch.clamp", &args, fact.exact, 1.0)?;
            }
            1 => {
                let mask = self.condition(&fact.dims)?;
                let args = [("a", Operand::Value(a)), ("mask", Operand::Value(mask)), ("value", float(-2.0))];
                self.one("torch.masked_fill", &args, fact.exact, fact.bound.max(2.0))?;
            }
            _ => {
                let mask = self.condition(&fact.dims)?;
                let b = self.beside(fact.dtype, &fact.dims);
                let bound = fact.bound.max(self.fact(b).bound);
                let args =
                    [("pred", Operand::Value(mask)), ("a", Operand::Value(a)), ("b", Operand::Value(b))];
                self.one("torch.where", &args, fact.exact && self.fact(b).exact, bound)?;
            }
        }
        Some(())
    }

    fn cast(&mut self) -> Option<()> {
        let a = self.some();
        let fact = self.fact(a).clone();
        let to = self.rng.pick(&[Dtype::F32, Dtype::F32, Dtype::F64, Dtype::Bf16]);
        let input = matches!(fact.made, Made::Input(_));
        let args = [("a", Operand::Value(a)), ("dtype", plain(Arg::Dtype(to)))];
        self.one("torch.to", &args, input, fact.bound).map(|_| ())
    }

    fn view(&mut self) -> Option<()> {
        let a = self.of_rank(1);
        let fact = self.fact(a).clone();
        let rank = fact.dims.len();
        let axis = self.rng.below(rank);
        let n = fact.dims[axis];
        let base = ("a", Operand::Value(a));
        let (exact, bound) = (fact.exact, fact.bound);
        match self.rng.below(12) {
            0 | 1 => {
                let mut axes: Vec<i64> = (0..rank as i64).collect();
                for i in (1..rank).rev() {
                    let j = self.rng.below(i + 1);
                    axes.swap(i, j);
                }
                self.one("torch.permute", &[base, ("axes", ints(&axes))], exact, bound)
            }
            2 => {
                let other = self.rng.below(rank) as i64 - rank as i64;
                let args = [base, ("axis0", int(axis as i64)), ("axis1", int(other))];
                self.one("torch.transpose", &args, exact, bound)
            }
            3 => {
                let dims = self.regrouped(&fact.dims);
                self.one("torch.reshape", &[base, ("dims", ints(&dims))], exact, bound)
            }
            4 => {
                let mut dims = fact.dims.clone();
                dims.iter_mut().filter(|n| **n == 1).for_each(|n| *n = 3);
                dims.insert(0, 2);
                self.one("torch.expand", &[base, ("dims", ints(&dims))], exact, bound)
            }
            5 | 6 => {
                let start = self.rng.below(n as usize + 1) as i64 - if self.rng.chance(3) { n } else { 0 };
                let end = self.rng.below(n as usize + 2) as i64;
                let step = self.rng.pick(&[1, 1, 1, 2, 3]);
                let args = [
                    base,
                    ("axis", int(axis as i64)),
                    ("start", int(start)),
                    ("end", int(end)),
                    ("step", int(step)),
                ];
                self.one("torch.slice", &args, exact, bound)
            }
            7 if n > 0 => {
                let index = self.rng.below(n as usize) as i64 - if self.rng.chance(2) { n } else { 0 };
                self.one(
                    "torch.select",
                    &[base, ("axis", int(axis as i64)), ("index", int(index))],
                    exact,
                    bound,
                )
            }
            8 => self.one("torch.unsqueeze", &[base, ("axis", int(axis as i64))], exact, bound),
            9 => {
                let pieces = 1 + self.rng.below(3) as i64;
                let args = [base, ("chunks", int(pieces)), ("axis", int(axis as i64))];
                self.one("torch.chunk", &args, exact, bound)
            }
            10 if n >= 2 => {
                let args = [base, ("axis", int(axis as i64)), ("size", int(2)), ("step", int(1))];
                self.one("torch.unfold", &args, exact, bound)
            }
            _ => self.one("torch.squeeze", &[base], exact, bound),
        }
        .map(|_| ())
    }

    /// Other dims for as many elements: two neighbours as one, or one in two.
    fn regrouped(&mut self, dims: &[i64]) -> Vec<i64> {
        let mut dims = dims.to_vec();
        let axis = self.rng.below(dims.len());
        let n = dims[axis];
        match [2, 3, 4, 5].into_iter().find(|by| n > 0 && n % by == 0) {
            Some(by) if self.rng.chance(2) => {
                dims[axis] = n / by;
                dims.insert(axis, by);
            }
            _ if axis + 1 < dims.len() => {
                dims[axis] *= dims[axis + 1];
                dims.remove(axis + 1);
            }
            _ => dims = vec![dims.iter().product()],
        }
        dims
    }

    fn joined(&mut self) -> Option<()> {
        let a = self.of_rank(1);
        let fact = self.fact(a).clone();
        let axis = self.rng.below(fact.dims.len());
        match self.rng.below(5) {
            0 => {
                let pad = [self.rng.below(3) as i64, self.rng.below(3) as i64 - 1];
                let args = [("a", Operand::Value(a)), ("pad", ints(&pad)), ("value", float(0.5))];
                self.one("torch.pad", &args, fact.exact, fact.bound.max(0.5))?;
            }
            1 => {
                let b = self.same_dims(&fact, axis, false);
                let args = [("tensors", Operand::Values(vec![a, b])), ("axis", int(axis as i64))];
                let exact = fact.exact && self.fact(b).exact;
                self.one("torch.stack", &args, exact, fact.bound.max(self.fact(b).bound))?;
            }
            _ => {
                let mut parts = vec![a];
                (0..1 + self.rng.below(3)).for_each(|_| parts.push(self.same_dims(&fact, axis, true)));
                let at = self.rng.below(parts.len());
                parts.swap(0, at);
                let all = |f: fn(&Fact) -> f64, maker: &Maker| {
                    parts.iter().map(|p| f(maker.fact(*p))).fold(0.0, f64::max)
                };
                let bound = all(|fact| fact.bound, self);
                let exact = all(|fact| f64::from(u8::from(!fact.exact)), self) == 0.0;
                let args = [("tensors", Operand::Values(parts)), ("axis", int(axis as i64))];
                self.one("torch.cat", &args, exact, bound)?;
            }
        }
        Some(())
    }

    /// A value of these dims, but along `axis` where it may differ.
    fn same_dims(&mut self, like: &Fact, axis: usize, differs: bool) -> usize {
        let fits = |fact: &Fact| {
            let same = |(n, (a, b)): (usize, (&i64, &i64))| a == b || (differs && n == axis);
            fact.dtype == like.dtype
                && fact.dims.len() == like.dims.len()
                && fact.dims.iter().zip(&like.dims).enumerate().all(same)
        };
        let good: Vec<usize> = (0..self.recipe.values.len()).filter(|v| fits(self.fact(*v))).collect();
        if !good.is_empty() && !self.rng.chance(3) {
            let at = self.rng.below(good.len());
            return good[at];
        }
        let mut dims = like.dims.clone();
        if differs {
            dims[axis] = self.rng.below(6) as i64;
        }
        self.input(like.dtype, dims, None)
    }

    fn reduced(&mut self) -> Option<()> {
        let a = self.of_rank(1);
        let fact = self.fact(a).clone();
        let rank = fact.dims.len();
        let mut axes: Vec<i64> = (0..rank as i64).filter(|_| self.rng.chance(2)).collect();
        if axes.is_empty() {
            axes.push(-1);
        }
        let keepdim = plain(Arg::Bool(self.rng.chance(2)));
        let n: i64 = axes.iter().map(|axis| fact.dims[(axis.rem_euclid(rank as i64)) as usize]).product();
        let args = [("a", Operand::Value(a)), ("axes", ints(&axes)), ("keepdim", keepdim)];
        match self.rng.below(7) {
            0 | 1 => self.one("torch.sum", &args, false, fact.bound * n as f64),
            2 if n > 0 => self.one("torch.mean", &args, false, fact.bound),
            // The gradient of what is largest twice jumps.
            3 if n > 0 && fact.exact => {
                let op = self.rng.pick(&["torch.amax", "torch.amin"]);
                self.one(op, &args, true, fact.bound)
            }
            4 if n > 1 => self.one("torch.var", &args, false, fact.bound * fact.bound * 2.0),
            5 if n > 0 => self.one("torch.logsumexp", &args, false, fact.bound + (n as f64).ln()),
            _ => {
                let axis = self.rng.below(rank) as i64;
                let bound = fact.bound * fact.dims[axis as usize] as f64;
                self.one("torch.cumsum", &[("a", Operand::Value(a)), ("axis", int(axis))], false, bound)
            }
        }
        .map(|_| ())
    }

    fn normed(&mut self) -> Option<()> {
        let a = self.of_rank(1);
        let fact = self.fact(a).clone();
        let rank = fact.dims.len();
        let axis = int(self.rng.below(rank) as i64 - rank as i64);
        let base = ("a", Operand::Value(a));
        let last = [fact.dims[rank - 1]];
        let size = (last[0] as f64).sqrt() * 2.0;
        match self.rng.below(6) {
            0 | 1 => self.one("torch.softmax", &[base, ("axis", axis)], false, 1.0),
            2 => self.one("torch.log_softmax", &[base, ("axis", axis)], false, 2.0 * fact.bound + 8.0),
            3 => {
                let w = self.input(fact.dtype, last.to_vec(), None);
                let b = self.input(fact.dtype, last.to_vec(), None);
                let args = [
                    base,
                    ("dims", ints(&last)),
                    ("weight", Operand::Value(w)),
                    ("bias", Operand::Value(b)),
                    ("eps", float(0.125)),
                ];
                self.one("torch.layer_norm", &args, false, size + 2.0)
            }
            4 => {
                let w = self.input(fact.dtype, last.to_vec(), None);
                let args =
                    [base, ("dims", ints(&last)), ("weight", Operand::Value(w)), ("eps", float(0.125))];
                self.one("torch.rms_norm", &args, false, size)
            }
            _ if rank >= 3 => {
                let groups = [4, 3, 2, 1].into_iter().find(|by| fact.dims[1] % by == 0).unwrap_or(1);
                let args = [base, ("groups", int(groups)), ("eps", float(0.125))];
                self.one("torch.group_norm", &args, false, 16.0)
            }
            _ => None,
        }
        .map(|_| ())
    }

    fn product(&mut self) -> Option<()> {
        let a = self.of_rank(2);
        let fact = self.fact(a).clone();
        let rank = fact.dims.len();
        let k = fact.dims[rank - 1];
        let bound = fact.bound * 2.0 * k as f64;
        let n = self.rng.pick(SIZES);
        if self.rng.chance(3) {
            let mut dims = fact.dims.clone();
            dims[rank - 2] = k;
            dims[rank - 1] = n;
            let b = self.input(fact.dtype, dims, None);
            return self
                .one("torch.matmul", &[("a", Operand::Value(a)), ("b", Operand::Value(b))], false, bound)
                .map(|_| ());
        }
        let w = self.input(fact.dtype, vec![n, k], None);
        let mut args = vec![("a", Operand::Value(a)), ("w", Operand::Value(w))];
        if self.rng.chance(2) {
            let b = self.input(fact.dtype, vec![n], None);
            args.push(("bias", Operand::Value(b)));
        }
        self.one("torch.linear", &args, false, bound + 2.0).map(|_| ())
    }

    fn attention(&mut self) -> Option<()> {
        let q = self.some_where(|fact| fact.dims.len() == 4);
        let fact = self.fact(q).clone();
        let [batch, heads, _, width] = fact.dims[..] else { return None };
        let keys = self.rng.pick(SIZES);
        let k = self.input(fact.dtype, vec![batch, heads, keys, width], None);
        let v = self.input(fact.dtype, vec![batch, heads, keys, width], None);
        let causal = plain(Arg::Bool(self.rng.chance(2)));
        let args = [
            ("q", Operand::Value(q)),
            ("k", Operand::Value(k)),
            ("v", Operand::Value(v)),
            ("is_causal", causal),
        ];
        self.one("torch.scaled_dot_product_attention", &args, false, 2.0).map(|_| ())
    }

    /// `x * cos + cat(-x2, x1) * sin`.
    fn rotary(&mut self) -> Option<()> {
        let x = self.some_where(|fact| fact.dims.last().is_some_and(|n| n % 2 == 0));
        let fact = self.fact(x).clone();
        let (half, n) = (fact.dims.last()? / 2, *fact.dims.last()?);
        let part = |maker: &mut Maker, start: i64, end: i64| {
            let args =
                [("a", Operand::Value(x)), ("axis", int(-1)), ("start", int(start)), ("end", int(end))];
            maker.one("torch.slice", &args, fact.exact, fact.bound)
        };
        let (first, second) = (part(self, 0, half)?, part(self, half, n)?);
        let second = self.one("torch.neg", &[("a", Operand::Value(second))], fact.exact, fact.bound)?;
        let args = [("tensors", Operand::Values(vec![second, first])), ("axis", int(-1))];
        let turned = self.one("torch.cat", &args, fact.exact, fact.bound)?;
        let angles = self.beside(fact.dtype, &fact.dims);
        let times = |maker: &mut Maker, a: usize, of: &str| {
            let angle = maker.one(of, &[("a", Operand::Value(angles))], false, 1.0)?;
            maker.one(
                "torch.mul",
                &[("a", Operand::Value(a)), ("b", Operand::Value(angle))],
                false,
                fact.bound,
            )
        };
        let (a, b) = (times(self, x, "torch.cos")?, times(self, turned, "torch.sin")?);
        let args = [("a", Operand::Value(a)), ("b", Operand::Value(b))];
        self.one("torch.add", &args, false, fact.bound * 2.0).map(|_| ())
    }

    fn indexed(&mut self) -> Option<()> {
        let a = self.some_where(|fact| !fact.dims.is_empty() && fact.dims.iter().all(|n| *n > 0));
        let fact = self.fact(a).clone();
        let axis = self.rng.below(fact.dims.len());
        let n = fact.dims[axis];
        let base = ("a", Operand::Value(a));
        match self.rng.below(5) {
            0 => {
                let count = self.rng.below(7) as i64;
                let index = self.input(Dtype::I64, vec![count], Some(n));
                let args = [base, ("axis", int(axis as i64)), ("index", Operand::Value(index))];
                self.one("torch.index_select", &args, fact.exact, fact.bound)
            }
            1 => {
                let mut dims = fact.dims.clone();
                dims[axis] = 1 + self.rng.below(6) as i64;
                let index = self.input(Dtype::I64, dims, Some(n));
                let args = [base, ("axis", int(axis as i64)), ("index", Operand::Value(index))];
                self.one("torch.gather", &args, fact.exact, fact.bound)
            }
            2 if fact.dims.len() == 2 => {
                let dims = [vec![3], vec![2, 5], vec![]][self.rng.below(3)].clone();
                let index = self.input(Dtype::I64, dims, Some(fact.dims[0]));
                let args = [("weight", Operand::Value(a)), ("index", Operand::Value(index))];
                self.one("torch.embedding", &args, fact.exact, fact.bound)
            }
            3 => {
                let index = self.input(Dtype::I64, fact.dims.clone(), Some(n));
                let source = self.input(fact.dtype, fact.dims.clone(), None);
                let args = [
                    base,
                    ("axis", int(axis as i64)),
                    ("index", Operand::Value(index)),
                    ("src", Operand::Value(source)),
                ];
                self.one("torch.scatter_add", &args, false, fact.bound + 2.0 * n as f64)
            }
            _ => {
                let mut dims = fact.dims.clone();
                dims[axis] = 4;
                let index = self.input(Dtype::I64, vec![4], Some(n));
                let source = self.input(fact.dtype, dims, None);
                let args = [
                    base,
                    ("axis", int(axis as i64)),
                    ("index", Operand::Value(index)),
                    ("src", Operand::Value(source)),
                ];
                self.one("torch.index_add", &args, false, fact.bound + 8.0)
            }
        }
        .map(|_| ())
    }

    fn arranged(&mut self) -> Option<()> {
        let a = self.of_rank(1);
        let fact = self.fact(a).clone();
        let rank = fact.dims.len();
        let axis = self.rng.below(rank) as i64;
        let base = ("a", Operand::Value(a));
        let (exact, bound) = (fact.exact, fact.bound);
        match self.rng.below(5) {
            0 => self.one("torch.flip", &[base, ("axes", ints(&[axis]))], exact, bound),
            1 => {
                self.one("torch.roll", &[base, ("shifts", ints(&[2])), ("axes", ints(&[axis]))], exact, bound)
            }
            2 if rank >= 2 => {
                let op = self.rng.pick(&["torch.tril", "torch.triu"]);
                let diagonal = self.rng.below(5) as i64 - 2;
                self.one(op, &[base, ("diagonal", int(diagonal))], exact, bound)
            }
            3 => {
                let args = [base, ("repeats", int(2)), ("axis", int(axis))];
                self.one("torch.repeat_interleave", &args, exact, bound)
            }
            _ => {
                let mut repeats = vec![1; rank];
                repeats[axis as usize] = 2;
                self.one("torch.repeat", &[base, ("repeats", ints(&repeats))], exact, bound)
            }
        }
        .map(|_| ())
    }

    fn dropped(&mut self) -> Option<()> {
        let a = self.some();
        let fact = self.fact(a).clone();
        let offset = 4 * self.rng.below(1 << 20) as i64;
        let args = [
            ("a", Operand::Value(a)),
            ("p", float(0.5)),
            ("train", plain(Arg::Bool(true))),
            ("seed", int(7)),
            ("offset", int(offset)),
        ];
        self.one("torch.dropout", &args, fact.exact, 2.0 * fact.bound).map(|_| ())
    }

    fn lost(&mut self) -> Option<()> {
        let a = self.some_where(|fact| fact.dims.len() == 2 && fact.dims.iter().all(|n| *n > 0));
        let fact = self.fact(a).clone();
        if self.rng.chance(2) {
            let b = self.input(fact.dtype, fact.dims.clone(), None);
            let args = [("a", Operand::Value(a)), ("target", Operand::Value(b))];
            return self.one("torch.mse_loss", &args, false, (fact.bound + 2.0).powi(2)).map(|_| ());
        }
        let target = self.input(Dtype::I64, vec![fact.dims[0]], Some(fact.dims[1]));
        let args = [("a", Operand::Value(a)), ("target", Operand::Value(target))];
        self.one("torch.cross_entropy", &args, false, 2.0 * fact.bound + 8.0).map(|_| ())
    }
}
