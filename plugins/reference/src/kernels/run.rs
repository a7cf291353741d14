//! From the SDK's calls to the kernels' tensors: what a run has, and what a kernel is made of.
//!
//! Invariant: what [`Run`] hands out is dropped before the kernel's body returns, since bodies store nothing.

use super::convert::{Load, Store, convert};
use super::pool::Pool;
use super::strided::{Dims, Dst, Src, Strides, dense_strides, numel};
use super::value::{Scalar, Value, bytes_of, from_bytes};
use thunderhead_sdk::{ArgRef, Call, Dtype, Error, Kernel, Number, Op, Outputs, Parallel};
use thunderhead_sdk::{Inputs, View};

/// What a kernel does in a run.
pub type Body = Box<dyn Fn(&mut Run<'_, '_>) -> Result<(), Error> + Send + Sync>;

/// A kernel, made.
pub struct Made {
    body: Body,
    n_numbers: usize,
    in_place: Vec<(usize, usize)>,
    any_size: bool,
    output_strides: Vec<Option<Vec<i64>>>,
}

impl Made {
    /// A kernel that has told nothing of itself yet.
    pub fn new(body: impl Fn(&mut Run<'_, '_>) -> Result<(), Error> + Send + Sync + 'static) -> Made {
        Made {
            body: Box::new(body),
            n_numbers: 0,
            in_place: Vec::new(),
            any_size: false,
            output_strides: Vec::new(),
        }
    }

    /// Keeps no size: what it needs of the dims it reads from the tensors.
    pub fn for_any_size(mut self) -> Made {
        self.any_size = true;
        self
    }

    /// Reads each element before it writes the one of the same index, so that the output may lie in these inputs.
    pub fn in_place(mut self, inputs: impl IntoIterator<Item = usize>) -> Made {
        self.in_place.extend(inputs.into_iter().map(|input| (0, input)));
        self
    }

    /// Writes output 0 with these strides.
    pub fn with_strides(mut self, strides: Vec<i64>) -> Made {
        self.output_strides = vec![Some(strides)];
        self
    }

    pub(crate) fn with_numbers(mut self, n_numbers: usize) -> Made {
        self.n_numbers = n_numbers;
        self
    }
}

impl Kernel for Made {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let numbers = (0..self.n_numbers).map(|slot| call.number(slot)).collect();
        let parts = call.parts();
        let mut run =
            Run { inputs: parts.inputs, outputs: parts.outputs, numbers, threads: Threads(parts.parallel) };
        (self.body)(&mut run)
    }

    fn in_place(&self) -> Vec<(usize, usize)> {
        self.in_place.clone()
    }

    fn size_independent(&self) -> bool {
        self.any_size
    }

    fn output_strides(&self) -> Vec<Option<Vec<i64>>> {
        self.output_strides.clone()
    }
}

/// The host's threads.
struct Threads<'a>(Parallel<'a>);

impl Pool for Threads<'_> {
    fn each(&self, n: usize, f: &(dyn Fn(usize) + Sync)) -> Result<(), Error> {
        if self.0.cancelled() {
            return Err(Error::cancelled("the run was cancelled"));
        }
        self.0.for_each(n, f)
    }
}

/// What one run of a kernel has.
pub struct Run<'c, 'a> {
    inputs: Inputs<'a>,
    outputs: &'c mut Outputs<'a>,
    numbers: Vec<Number>,
    threads: Threads<'a>,
}

impl Run<'_, '_> {
    /// Who runs chunks.
    pub fn pool(&self) -> &dyn Pool {
        &self.threads
    }

    /// Dtype of an input.
    pub fn input_dtype(&self, idx: usize) -> Dtype {
        self.inputs.get(idx).dtype()
    }

    /// An input of type `T`.
    pub fn src<T: Value>(&self, idx: usize) -> Result<Src<T>, Error> {
        let view = self.inputs.get(idx);
        must_be(view.dtype() == T::DTYPE, view.dtype(), T::DTYPE)?;
        Ok(src_of(&view))
    }

    /// An input as elements of the same size, whatever they mean; see `with_bits!`.
    pub fn src_bits<T: Value>(&self, idx: usize) -> Result<Src<T>, Error> {
        let view = self.inputs.get(idx);
        must_be(bits_of(view.dtype()) == bits_of(T::DTYPE), view.dtype(), T::DTYPE)?;
        Ok(src_of(&view))
    }

    /// An input of any dtype, to be converted.
    pub fn load(&self, idx: usize) -> Result<Box<dyn Load>, Error> {
        with_every!(self.input_dtype(idx), T => Ok(Box::new(self.src::<T>(idx)?)))
    }

    /// An input converted to type `T`; itself where it is.
    pub fn src_as<T: Value>(&self, idx: usize) -> Result<Src<T>, Error> {
        if self.input_dtype(idx) == T::DTYPE {
            return self.src(idx);
        }
        let from = self.load(idx)?;
        let mut values = vec![T::default(); numel(from.dims())];
        convert(self.pool(), &Dst::over(&mut values, from.dims()), &*from)?;
        Ok(Src::from_vec(values, from.dims()))
    }

    /// An output of any dtype, to be converted to.
    pub fn store(&mut self, idx: usize) -> Result<Box<dyn Store>, Error> {
        with_every!(self.output_dtype(idx), T => Ok(Box::new(self.dst::<T>(idx)?)))
    }

    /// An output of type `T`.
    pub fn dst<T: Value>(&mut self, idx: usize) -> Result<Dst<T>, Error> {
        let found = self.outputs.get(idx).dtype();
        must_be(found == T::DTYPE, found, T::DTYPE)?;
        self.dst_of(idx)
    }

    /// An output as elements of the same size, whatever they mean; see `with_bits!`.
    pub fn dst_bits<T: Value>(&mut self, idx: usize) -> Result<Dst<T>, Error> {
        let found = self.outputs.get(idx).dtype();
        must_be(bits_of(found) == bits_of(T::DTYPE), found, T::DTYPE)?;
        self.dst_of(idx)
    }

    /// Dtype of an output.
    pub fn output_dtype(&mut self, idx: usize) -> Dtype {
        self.outputs.get(idx).dtype()
    }

    fn dst_of<T: Value>(&mut self, idx: usize) -> Result<Dst<T>, Error> {
        let mut view = self.outputs.get(idx);
        let (dims, strides) = layout(view.dims(), view.raw_strides());
        let data = view.data_ptr().cast::<T>();
        if !data.is_aligned() {
            return Err(Error::invalid(format!("output {idx} is not aligned to its elements")));
        }
        // SAFETY: the host gives writable, aligned memory for all elements of the view until the run ends, and bodies
        // keep nothing beyond it; an input that shares it is one that the kernel has allowed.
        Ok(unsafe { Dst::from_raw(data, dims, strides) })
    }

    /// Memory for an output whose dims the kernel decides.
    pub fn alloc<T: Value>(&mut self, idx: usize, dims: &[usize]) -> Result<Dst<T>, Error> {
        let dims: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
        self.outputs.alloc(idx, &dims)?;
        self.dst(idx)
    }

    /// The value of a number.
    pub fn number(&self, number: Num) -> Scalar {
        match number {
            Num::Known(value) => value,
            Num::Slot(slot) => match self.numbers[slot] {
                Number::Int(v) => Scalar::Int(v),
                Number::Float(v) => Scalar::Float(v),
                Number::Bool(v) => Scalar::Bool(v),
            },
        }
    }

    /// The value of a number that is an integer.
    pub fn int(&self, number: Num) -> Result<i64, Error> {
        match self.number(number) {
            Scalar::Int(v) => Ok(v),
            Scalar::Bool(v) => Ok(i64::from(v)),
            other => Err(Error::invalid(format!("{other:?} is given where an int is expected"))),
        }
    }

    /// A tensor, or a number repeated over `dims`.
    pub fn operand<T: Value>(&self, operand: Operand, dims: &[usize]) -> Result<Src<T>, Error> {
        match operand {
            Operand::Tensor(idx) => self.src(idx),
            Operand::Number(number) => Ok(Src::filled(self.number(number).to(), dims)),
        }
    }

    /// As [`Run::operand`], in elements of the same size as those of `dtype`; see `with_bits!`.
    pub fn operand_bits<T: Value>(
        &self,
        operand: Operand,
        dims: &[usize],
        dtype: Dtype,
    ) -> Result<Src<T>, Error> {
        match operand {
            Operand::Tensor(idx) => self.src_bits(idx),
            Operand::Number(number) => Ok(Src::filled(self.bits(number, dtype)?, dims)),
        }
    }

    /// A number in a dtype, as an element of the same size.
    pub fn bits<T: Value>(&self, number: Num, dtype: Dtype) -> Result<T, Error> {
        let bytes = scalar_bytes(self.number(number), dtype)?;
        Ok(from_bytes(&bytes))
    }
}

fn scalar_bytes(scalar: Scalar, dtype: Dtype) -> Result<[u8; 16], Error> {
    with_every!(dtype, V => Ok(bytes_of(scalar.to::<V>())))
}

/// Size and alignment class of a dtype; the same for dtypes whose elements may be moved as one another.
fn bits_of(dtype: Dtype) -> (usize, bool) {
    (dtype.size_bytes(), dtype.is_complex())
}

fn must_be(holds: bool, found: Dtype, expected: Dtype) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::invalid(format!("a tensor is {found}; expected {expected}"))) }
}

fn layout(dims: &[i64], strides: Option<&[i64]>) -> (Dims, Strides) {
    let dims: Dims = dims.iter().map(|dim| (*dim).max(0) as usize).collect();
    let strides = match strides {
        Some(strides) => strides.iter().map(|stride| *stride as isize).collect(),
        None => dense_strides(&dims),
    };
    (dims, strides)
}

fn src_of<T: Value>(view: &View<'_>) -> Src<T> {
    let (dims, strides) = layout(view.dims(), view.raw_strides());
    let data = view.data_ptr().cast::<T>();
    // SAFETY: the SDK has checked memory and alignment; the host keeps all elements readable until the run ends, and
    // bodies keep nothing beyond it. What is written meanwhile is only what the kernel has allowed in place.
    unsafe { Src::from_raw(data, dims, strides) }
}

/// A number argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num {
    Known(Scalar),
    /// Known only at run.
    Slot(usize),
}

/// An argument that is a tensor, or a number that stands for a tensor filled with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// By its index among the inputs.
    Tensor(usize),
    Number(Num),
}

impl Operand {
    /// The input's index.
    pub fn tensor(self) -> Option<usize> {
        match self {
            Operand::Tensor(idx) => Some(idx),
            Operand::Number(_) => None,
        }
    }
}

/// The arguments of an op as kernels ask for them.
pub trait Args {
    /// A tensor that must be there, by its index among the inputs.
    fn must(&self, name: &str) -> Result<usize, Error>;
    /// A tensor or a number.
    fn operand(&self, name: &str) -> Result<Operand, Error>;
    /// A number of any kind.
    fn num(&self, name: &str) -> Result<Num, Error>;
    /// Integers, some of which may be known only at run.
    fn nums(&self, name: &str) -> Result<Vec<Num>, Error>;
    /// Integers that are all known and not negative.
    fn sizes(&self, name: &str) -> Result<Vec<usize>, Error>;
    /// An integer that is known and not negative.
    fn size(&self, name: &str) -> Result<usize, Error>;
    /// Axes, each one of a tensor with `rank` dims, sorted.
    fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>, Error>;
    /// One of the axes of a tensor with `rank` dims.
    fn axis(&self, name: &str, rank: usize) -> Result<usize, Error>;
}

impl Args for Op<'_> {
    fn must(&self, name: &str) -> Result<usize, Error> {
        self.tensor(name).ok_or_else(|| Error::invalid(format!("argument `{name}` is no tensor")))
    }

    fn operand(&self, name: &str) -> Result<Operand, Error> {
        match self.tensor(name) {
            Some(idx) => Ok(Operand::Tensor(idx)),
            None => self.num(name).map(Operand::Number),
        }
    }

    fn num(&self, name: &str) -> Result<Num, Error> {
        let known = match self.arg(name) {
            Some(ArgRef::Slot(slot)) => return Ok(Num::Slot(slot)),
            Some(ArgRef::Int(v)) => Scalar::Int(v),
            Some(ArgRef::Float(v)) => Scalar::Float(v),
            Some(ArgRef::Bool(v)) => Scalar::Bool(v),
            Some(ArgRef::Complex(re, im)) => Scalar::Complex(re, im),
            other => {
                return Err(Error::invalid(format!("argument `{name}` is {other:?}; expected a number")));
            }
        };
        Ok(Num::Known(known))
    }

    fn nums(&self, name: &str) -> Result<Vec<Num>, Error> {
        let Some(ArgRef::Ints(ints)) = self.arg(name) else {
            return Err(Error::invalid(format!("argument `{name}` is no list of ints")));
        };
        let num = |idx: usize| match ints.slot(idx) {
            Some(slot) => Num::Slot(slot),
            None => Num::Known(Scalar::Int(ints.values[idx])),
        };
        Ok((0..ints.values.len()).map(num).collect())
    }

    fn sizes(&self, name: &str) -> Result<Vec<usize>, Error> {
        let values = self.ints(name)?;
        let bad = |v: i64| Error::invalid(format!("argument `{name}` has {v}; expected no negative"));
        values.iter().map(|v| usize::try_from(*v).map_err(|_| bad(*v))).collect()
    }

    fn size(&self, name: &str) -> Result<usize, Error> {
        let value = self.int(name)?;
        usize::try_from(value)
            .map_err(|_| Error::invalid(format!("argument `{name}` is {value}; expected no negative")))
    }

    fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>, Error> {
        let mut axes = self.sizes(name)?;
        axes.sort_unstable();
        let distinct = axes.windows(2).all(|pair| pair[0] != pair[1]);
        if !distinct || axes.last().is_some_and(|last| *last >= rank) {
            return Err(Error::invalid(format!("axes {axes:?} of a tensor with {rank} dims")));
        }
        Ok(axes)
    }

    fn axis(&self, name: &str, rank: usize) -> Result<usize, Error> {
        let axis = self.size(name)?;
        if axis < rank {
            return Ok(axis);
        }
        Err(Error::invalid(format!("argument `{name}` is {axis}; the tensor has {rank} dims")))
    }
}
